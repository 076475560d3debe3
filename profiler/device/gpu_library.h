#pragma once

#include <string>

#include "profiler/device/cuda/cuda_entry.h"

namespace mptune::profiler {

/// Opens libmptune_cuda.so at the first call: from MPTUNE_CUDA_LIBRARY, beside the program, in ../libexec/mptune or where it was installed.
/// Throws Error (environment) that names `device` and what is missing: the driver, the library, or one that it needs. Thread-safe.
[[nodiscard]] const GpuLibrary& gpu_library(const std::string& device);

/// Returns the library if gpu_library() has opened it, as it has where there are devices of GPUs; else null. Thread-safe.
[[nodiscard]] const GpuLibrary* opened_gpu_library();

/// Returns the remedy for a library that can't be loaded, from dlopen's message: one line.
[[nodiscard]] std::string missing_library_remedy(const std::string& message);

}  // namespace mptune::profiler
