#pragma once

/// Facts of a GPU by the numbers that CUdevice_attribute and cudaDeviceAttr have in common. They are those of an H100 but for the settings.

#include <optional>

#include "tests/emulation/machine/machine.h"

namespace emulation {

inline constexpr int kCudaVersion = 13000;
inline constexpr int kLeastPriority = 0;
inline constexpr int kGreatestPriority = -5;

/// None: unknown number.
[[nodiscard]] EMULATION_EXPORT std::optional<int> attribute_of(int attribute, int gpu);

}  // namespace emulation
