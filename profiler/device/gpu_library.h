#pragma once

#include <string>

#include "mptune/profiler/device/cuda_entry.h"

namespace mptune {

/// Opens libmptune_cuda.so, the first time: MPTUNE_CUDA_LIBRARY names it, else it lies beside the program, in ../libexec/mptune or where it
/// was installed to. `device` is for whom, named in the Error (environment) that says what is missing: driver, library, or a library that
/// it needs. Thread-safe.
[[nodiscard]] const GpuLibrary& gpu_library(const std::string& device);

/// One line that names the remedy for dlopen's message on a library that can't be loaded.
[[nodiscard]] std::string missing_library_remedy(const std::string& message);

}  // namespace mptune
