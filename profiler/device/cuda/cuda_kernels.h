#pragma once

#include <string>

#include "profiler/device/cuda/cuda_entry.h"

namespace mptune::profiler {

/// Implements GpuLibrary::launch.
[[nodiscard]] std::string launch_kernel(const GpuLaunch& launch);

}  // namespace mptune::profiler
