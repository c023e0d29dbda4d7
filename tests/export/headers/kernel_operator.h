// Ascend C as far as the exported Add kernel uses it, on the host: memory is host memory, queues are checked.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <vector>

#define __aicore__
#define __global__
#define __gm__
#define GM_ADDR uint8_t *
#define REGISTER_TILING_DEFAULT(type)
#define GET_TILING_DATA_WITH_STRUCT(type, name, address) \
    type name;                                           \
    memcpy(&name, address, sizeof(name))

inline int64_t g_block_idx = 0, g_block_num = 1;

inline void require(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "kernel: %s\n", what);
        abort();
    }
}

namespace AscendC {
inline int64_t GetBlockIdx() { return g_block_idx; }
inline int64_t GetBlockNum() { return g_block_num; }
enum class TPosition { VECIN, VECOUT, VECCALC };
enum class CacheMode { CACHE_MODE_DISABLE, CACHE_MODE_NORMAL };
enum class CacheRwMode { READ, WRITE, RW };

struct DataCopyExtParams {
    uint16_t blockCount;
    uint32_t blockLen, srcStride, dstStride, rsv;
};
template <typename T>
struct DataCopyPadExtParams {
    bool isPad;
    uint8_t leftPadding, rightPadding;
    T paddingValue;
};

template <typename T>
struct GlobalTensor {
    T *data = nullptr;
    void SetGlobalBuffer(T *pointer) { data = pointer; }
    GlobalTensor operator[](int64_t offset) const { return GlobalTensor{data + offset}; }
    template <CacheRwMode M>
    void SetL2CacheHint(CacheMode)
    {
    }
};
template <typename T>
struct LocalTensor {
    T *data = nullptr;
    int64_t bytes = 0;
    LocalTensor operator[](int64_t offset) const
    {
        return {data + offset, bytes - offset * static_cast<int64_t>(sizeof(T))};
    }
};

template <TPosition P, int D>
struct TQue {
    std::vector<std::vector<unsigned char>> buffers;
    std::deque<int> free, full;
    int held = 0;
    template <typename T>
    LocalTensor<T> AllocTensor()
    {
        require(!free.empty(), "AllocTensor without a free buffer");
        int index = free.front();
        free.pop_front();
        ++held;
        return {reinterpret_cast<T *>(buffers[index].data()), static_cast<int64_t>(buffers[index].size())};
    }
    template <typename T>
    void EnQue(LocalTensor<T> tensor) { full.push_back(index_of(tensor.data)); }
    template <typename T>
    LocalTensor<T> DeQue()
    {
        require(!full.empty(), "DeQue of an empty queue");
        int index = full.front();
        full.pop_front();
        return {reinterpret_cast<T *>(buffers[index].data()), static_cast<int64_t>(buffers[index].size())};
    }
    template <typename T>
    void FreeTensor(LocalTensor<T> tensor) { --held; free.push_back(index_of(tensor.data)); }
    int index_of(const void *data)
    {
        for (size_t i = 0; i < buffers.size(); ++i) {
            if (buffers[i].data() == data) {
                return static_cast<int>(i);
            }
        }
        require(false, "a tensor of another queue");
        return 0;
    }
    ~TQue() { require(held == 0, "a tensor was never freed"); }
};

struct TPipe {
    template <TPosition P, int D>
    void InitBuffer(TQue<P, D> &queue, int32_t num, int32_t bytes)
    {
        for (int32_t i = 0; i < num; ++i) {
            queue.free.push_back(static_cast<int>(queue.buffers.size()));
            queue.buffers.emplace_back(bytes);
        }
    }
};

template <typename T>
void DataCopyPad(LocalTensor<T> to, GlobalTensor<T> from, DataCopyExtParams params, DataCopyPadExtParams<T>)
{
    require(params.blockCount == 1 && params.blockLen <= to.bytes, "a copy beyond its buffer");
    memcpy(to.data, from.data, params.blockLen);
}
template <typename T>
void DataCopyPad(GlobalTensor<T> to, LocalTensor<T> from, DataCopyExtParams params)
{
    require(params.blockCount == 1 && params.blockLen <= from.bytes, "a copy beyond its buffer");
    memcpy(to.data, from.data, params.blockLen);
}
template <typename T>
void Add(LocalTensor<T> to, LocalTensor<T> a, LocalTensor<T> b, int32_t count)
{
    for (int32_t i = 0; i < count; ++i) {
        to.data[i] = a.data[i] + b.data[i];
    }
}
}  // namespace AscendC
