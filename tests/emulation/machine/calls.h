#pragma once

/// What a thread knows of the API call that it is in.

#include <cstdint>

#include "tests/emulation/machine/machine.h"

namespace emulation {

/// Number of the API call that this thread is in; a number of its own where it is in none.
[[nodiscard]] std::uint32_t current_correlation();

/// The error of this thread's last failed call, 0: none. cudaPeekAtLastError and, which forgets it, cudaGetLastError.
[[nodiscard]] EMULATION_EXPORT Status last_error(bool forget);

/// Makes `status` this thread's last error.
EMULATION_EXPORT void set_last_error(Status status);

}  // namespace emulation
