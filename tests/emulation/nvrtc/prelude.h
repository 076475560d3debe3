#pragma once

namespace emulation {

/// What NVRTC's language has and the host's lacks: the words, dim3 and threadIdx, a few functions, and `emulated_image`, which collects the
/// kernels. Comes before the program's first line. Includes nothing: programs for NVRTC define types of the host's headers themselves.
extern const char* const kPrelude;

}  // namespace emulation
