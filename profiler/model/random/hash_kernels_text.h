#pragma once

namespace mptune::profiler {

/// The text of hash_kernels.h.
extern const char* const kHashKernels;

}  // namespace mptune::profiler
