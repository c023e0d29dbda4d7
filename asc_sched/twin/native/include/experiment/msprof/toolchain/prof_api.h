// The part of CANN's profiling interface that pyasc's NPU helper compiles against.
#ifndef ASC_SCHED_TWIN_PROF_API_H
#define ASC_SCHED_TWIN_PROF_API_H

#include <cstddef>
#include <cstdint>
#include <cstring>

#define PROF_CTRL_SWITCH 1
#define PROF_COMMANDHANDLE_TYPE_START 1
#define PROF_COMMANDHANDLE_TYPE_STOP 2
#define PROF_TASK_TIME 0x2ULL
#define PROF_TASK_TIME_L1 0x4ULL
#define MSPROF_REPORT_DATA_MAGIC_NUM 0x5A5A
#define MSPROF_REPORT_NODE_LEVEL 10000
#define MSPROF_REPORT_NODE_BASIC_INFO_TYPE 0
#define MSPROF_REPORT_NODE_TENSOR_INFO_TYPE 1
#define MSPROF_REPORT_NODE_LAUNCH_TYPE 5

struct MsprofCommandHandle {
    uint64_t profSwitch;
    uint64_t profSwitchHi;
    uint32_t type;
};

struct MsprofApi {
    uint16_t magicNumber;
    uint16_t level;
    uint32_t type;
    uint32_t threadId;
    uint32_t reserve;
    uint64_t beginTime;
    uint64_t endTime;
    uint64_t itemId;
};

struct MsprofNodeBasicInfo {
    uint64_t opName;
    uint32_t taskType;
    uint64_t opType;
    uint32_t blockDim;
};

struct MsprofCompactInfo {
    uint16_t magicNumber;
    uint16_t level;
    uint32_t type;
    uint32_t threadId;
    uint64_t timeStamp;
    struct {
        MsprofNodeBasicInfo nodeBasicInfo;
    } data;
};

struct MsprofTensorInfo {
    uint64_t opName;
};

struct MsprofAdditionalInfo {
    uint16_t magicNumber;
    uint16_t level;
    uint32_t type;
    uint32_t threadId;
    uint64_t timeStamp;
    uint8_t data[232];
};

typedef int (*ProfCommandHandle)(unsigned int type, void *data, unsigned int nbytes);

extern "C" {
uint64_t MsprofSysCycleTime();
uint64_t MsprofGetHashId(const char *text, size_t length);
int32_t MsprofReportApi(uint32_t aging, const MsprofApi *api);
int32_t MsprofReportCompactInfo(uint32_t aging, const void *data, uint32_t nbytes);
int32_t MsprofReportAdditionalInfo(uint32_t aging, const void *data, uint32_t nbytes);
int32_t MsprofRegisterCallback(uint32_t module, ProfCommandHandle handle);
}

#endif
