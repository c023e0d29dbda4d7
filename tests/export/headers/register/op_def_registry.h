// What a CANN operator's host side uses of the framework, as little as it takes to compile and run it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ge {
using graphStatus = uint32_t;
constexpr graphStatus GRAPH_SUCCESS = 0;
constexpr graphStatus GRAPH_FAILED = 0xFFFFFFFF;
enum DataType { DT_FLOAT, DT_FLOAT16, DT_BF16, DT_BOOL, DT_INT8, DT_UINT8, DT_INT16, DT_INT32, DT_INT64 };
enum Format { FORMAT_ND = 2 };
}  // namespace ge

namespace gert {
struct Shape {
    std::vector<int64_t> dims;
    int64_t GetShapeSize() const
    {
        int64_t size = 1;
        for (int64_t dim : dims) {
            size *= dim;
        }
        return size;
    }
};

struct StorageShape {
    Shape shape;
    const Shape &GetStorageShape() const { return shape; }
};

struct Attrs {
    std::vector<float> floats;
    std::vector<int64_t> ints;
    const float *GetFloat(size_t index) const { return index < floats.size() ? &floats[index] : nullptr; }
    const int64_t *GetInt(size_t index) const { return index < ints.size() ? &ints[index] : nullptr; }
};

struct TilingContext {
    std::vector<StorageShape> inputs;
    Attrs attrs;
    int platform = 0;
    uint32_t block_dim = 0;
    size_t workspace = 99;
    alignas(8) unsigned char data[256] = {};

    const StorageShape *GetInputShape(size_t index) const { return index < inputs.size() ? &inputs[index] : nullptr; }
    const Attrs *GetAttrs() const { return &attrs; }
    const int *GetPlatformInfo() const { return &platform; }
    void SetBlockDim(uint32_t value) { block_dim = value; }
    size_t *GetWorkspaceSizes(size_t) { return &workspace; }
    template <typename T>
    T *GetTilingData()
    {
        static_assert(sizeof(T) <= sizeof(data));
        return reinterpret_cast<T *>(data);
    }
};

struct InferShapeContext {
    Shape input;
    std::vector<Shape> outputs;
    const Shape *GetInputShape(size_t) const { return &input; }
    Shape *GetOutputShape(size_t index) { return &outputs.at(index); }
};

struct InferDataTypeContext {
    std::vector<ge::DataType> outputs;
    ge::graphStatus SetOutputDataType(size_t index, ge::DataType dtype)
    {
        outputs.at(index) = dtype;
        return ge::GRAPH_SUCCESS;
    }
};
}  // namespace gert

namespace ops {
enum Option { REQUIRED, OPTIONAL };

struct Param {
    std::string name;
    Option type = REQUIRED;
    std::vector<ge::DataType> dtypes;
    Param &ParamType(Option option) { type = option; return *this; }
    Param &DataType(std::vector<ge::DataType> list) { dtypes = list; return *this; }
    Param &Format(std::vector<ge::Format>) { return *this; }
};

struct Attribute {
    std::string name;
    Option type = REQUIRED;
    double value = 0;
    Attribute &AttrType(Option option) { type = option; return *this; }
    Attribute &Float(float v = 0) { value = v; return *this; }
    Attribute &Int(int64_t v = 0) { value = static_cast<double>(v); return *this; }
};

struct Core {
    ge::graphStatus (*tiling)(gert::TilingContext *) = nullptr;
    std::vector<std::string> configs;
    Core &SetTiling(ge::graphStatus (*function)(gert::TilingContext *)) { tiling = function; return *this; }
    Core &AddConfig(const char *name) { configs.push_back(name); return *this; }
};

class OpDef {
public:
    explicit OpDef(const char *name) : type(name) {}
    Param &Input(const char *name) { inputs.push_back({name}); return inputs.back(); }
    Param &Output(const char *name) { outputs.push_back({name}); return outputs.back(); }
    Attribute &Attr(const char *name) { attributes.push_back({name}); return attributes.back(); }
    OpDef &SetInferShape(ge::graphStatus (*function)(gert::InferShapeContext *)) { shape = function; return *this; }
    OpDef &SetInferDataType(ge::graphStatus (*function)(gert::InferDataTypeContext *)) { dtype = function; return *this; }
    Core &AICore() { return core; }

    std::string type;
    std::vector<Param> inputs, outputs;
    std::vector<Attribute> attributes;
    ge::graphStatus (*shape)(gert::InferShapeContext *) = nullptr;
    ge::graphStatus (*dtype)(gert::InferDataTypeContext *) = nullptr;
    Core core;
};
}  // namespace ops

#define OP_ADD(type) static type g_operator(#type)
