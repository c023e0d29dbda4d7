// AscendCL as far as pyasc's helper calls it: nothing to set up.
#include "acl/acl.h"

extern "C" {
aclError aclInit(const char *) { return 0; }
aclError aclFinalize() { return 0; }
}
