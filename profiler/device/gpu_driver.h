#pragma once

#include <string>

namespace mptune {

/// What the NVIDIA driver says of this machine.
struct GpuDriver {
  int gpus = 0;         ///< that this process may use (CUDA_VISIBLE_DEVICES counts)
  std::string problem;  ///< why there is none, a clause; "" where there is one
};

/// Asks the driver (libcuda.so.1, opened at run time) the first time, which takes it up to some tenths of a second where there is one; then
/// what it said. Thread-safe; never throws for a machine without driver or GPU.
[[nodiscard]] const GpuDriver& gpu_driver();

}  // namespace mptune
