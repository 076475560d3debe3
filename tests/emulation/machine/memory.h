#pragma once

/// Device memory and pinned host memory. Both are memory of this process; new device memory is filled with 0xFF (NaN).

#include "tests/emulation/machine/machine.h"

namespace emulation {

/// On failure `*made` is null.
EMULATION_EXPORT Status allocate_device(int gpu, std::size_t bytes, void** made);
/// Waits for the GPU, as cudaFree does. Null is allowed.
EMULATION_EXPORT Status free_device(void* memory);

EMULATION_EXPORT Status allocate_pinned(std::size_t bytes, void** made);
EMULATION_EXPORT Status free_pinned(void* memory);
/// Memory of the program becomes pinned, and pageable again.
EMULATION_EXPORT Status pin(void* memory, std::size_t bytes);
EMULATION_EXPORT Status unpin(void* memory);

/// Of a GPU, among all processes.
EMULATION_EXPORT void memory_info(int gpu, std::size_t* free, std::size_t* total);

/// Fills with NaN; of large memory only the begin, which saves memory that nobody uses.
void fill_with_nan(void* memory, std::size_t bytes);

}  // namespace emulation
