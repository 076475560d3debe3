#pragma once

#include <c10/cuda/CUDAStream.h>

#include <cstdint>
#include <string>

#include "mptune/profiler/device/cuda_memory.h"
#include "mptune/profiler/device/device_spec.h"

namespace mptune {

/// Streams and memory of one device of a GPU.
struct CudaLanes {
  DeviceSpec spec;
  std::string gpu;  ///< its model, and of a part the multiprocessors
  int sms = 0;
  std::int64_t memory_bytes = 0;  ///< of the whole GPU
  c10::cuda::CUDAStream compute;
  c10::cuda::CUDAStream copy_in;   ///< from the host to this device
  c10::cuda::CUDAStream copy_out;  ///< from this device, to the host or to others
  CudaAccount account;

  [[nodiscard]] c10::Device device() const { return {c10::DeviceType::CUDA, compute.device_index()}; }
};

/// The lanes of a device, made the first time; they live until the process ends. Thread-safe.
/// Throws Error (environment) if the device can't be had.
[[nodiscard]] CudaLanes& cuda_lanes(const DeviceSpec& spec);

}  // namespace mptune
