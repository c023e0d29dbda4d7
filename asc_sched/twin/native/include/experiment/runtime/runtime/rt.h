// The part of CANN's runtime interface that pyasc's wrapper calls, declared after the wrapper's own use of it.
#ifndef ASC_SCHED_TWIN_RT_H
#define ASC_SCHED_TWIN_RT_H

#include <cstddef>
#include <cstdint>

#define RTS_API __attribute__((visibility("default")))

typedef int32_t rtError_t;
typedef char char_t;
typedef void *rtStream_t;
typedef uint32_t rtMemType_t;
typedef int32_t rtMemcpyKind_t;
typedef struct rtSmDesc rtSmDesc_t;

typedef struct rtDevBinary {
    uint32_t magic;
    uint32_t version;
    const void *data;
    uint64_t length;
} rtDevBinary_t;

#define RT_ERROR_NONE 0

extern "C" {
RTS_API rtError_t rtGetSocVersion(char_t *version, uint32_t capacity);
RTS_API rtError_t rtGetDeviceCount(int32_t *count);
RTS_API rtError_t rtGetDeviceInfo(uint32_t device, int32_t module, int32_t info, int64_t *value);
RTS_API rtError_t rtDeviceReset(int32_t device);
RTS_API rtError_t rtSetDevice(int32_t device);
RTS_API rtError_t rtStreamCreate(rtStream_t *stream, int32_t priority);
RTS_API rtError_t rtStreamDestroy(rtStream_t stream);
RTS_API rtError_t rtDevBinaryRegister(const rtDevBinary_t *binary, void **handle);
RTS_API rtError_t rtDevBinaryUnRegister(void *handle);
RTS_API rtError_t rtFunctionRegister(void *handle, const void *stub, const char_t *name, const void *info,
                                     uint32_t mode);
RTS_API rtError_t rtMalloc(void **pointer, uint64_t nbytes, rtMemType_t type, uint16_t module);
RTS_API rtError_t rtFree(void *pointer);
RTS_API rtError_t rtMemcpy(void *to, uint64_t capacity, const void *from, uint64_t nbytes, rtMemcpyKind_t kind);
RTS_API rtError_t rtKernelLaunch(const void *stub, uint32_t block_num, void *args, uint32_t nbytes,
                                 rtSmDesc_t *shared, rtStream_t stream);
RTS_API rtError_t rtStreamSynchronize(rtStream_t stream);
RTS_API rtError_t rtStreamSynchronizeWithTimeout(rtStream_t stream, int32_t milliseconds);
RTS_API rtError_t rtDeviceSynchronize(void);
RTS_API rtError_t rtGetC2cCtrlAddr(uint64_t *address, uint32_t *length);
RTS_API rtError_t rtProfSetProSwitch(void *data, uint32_t nbytes);
}

#endif
