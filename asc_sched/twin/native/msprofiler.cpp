// The profiling interface with no profiler attached.
#include "experiment/msprof/toolchain/prof_api.h"

extern "C" {
uint64_t MsprofSysCycleTime() { return 0; }
uint64_t MsprofGetHashId(const char *, size_t) { return 0; }
int32_t MsprofReportApi(uint32_t, const MsprofApi *) { return 0; }
int32_t MsprofReportCompactInfo(uint32_t, const void *, uint32_t) { return 0; }
int32_t MsprofReportAdditionalInfo(uint32_t, const void *, uint32_t) { return 0; }
int32_t MsprofRegisterCallback(uint32_t, ProfCommandHandle) { return 0; }
}
