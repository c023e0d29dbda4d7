// The two functions of AscendCL that pyasc's NPU helper calls.
#ifndef ASC_SCHED_TWIN_ACL_H
#define ASC_SCHED_TWIN_ACL_H

typedef int aclError;

extern "C" {
aclError aclInit(const char *config);
aclError aclFinalize();
}

#endif
