#pragma once

/// Functions of the driver by their names.

#include "tests/emulation/machine/machine.h"

namespace emulation {

/// Null: there is no such function.
[[nodiscard]] EMULATION_EXPORT void* driver_function(const char* name);

}  // namespace emulation
