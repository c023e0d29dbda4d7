#pragma once

#include <cstdint>

namespace platform_ascendc {
// The number of vector cores is what the context's platform holds.
class PlatformAscendC {
public:
    explicit PlatformAscendC(const int *info) : cores(static_cast<uint32_t>(*info)) {}
    uint32_t GetCoreNumAiv() const { return cores; }

private:
    uint32_t cores;
};
}  // namespace platform_ascendc
