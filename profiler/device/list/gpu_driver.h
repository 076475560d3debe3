#pragma once

#include <string>

namespace mptune::profiler {

/// What the NVIDIA driver reports about this machine.
struct GpuDriver {
  int gpus = 0;         ///< number of GPUs that this process may use (see CUDA_VISIBLE_DEVICES)
  std::string problem;  ///< why there is no GPU, one clause; "" if there is one
};

/// Queries the driver (libcuda.so.1, opened at run time) at the first call, which takes up to some tenths of a second; then cached.
/// Thread-safe; does not throw on a machine without driver or GPU.
[[nodiscard]] const GpuDriver& gpu_driver();

}  // namespace mptune::profiler
