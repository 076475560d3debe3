#pragma once

#include <c10/cuda/CUDAStream.h>

#include <cstdint>
#include <memory>
#include <string>

#include "profiler/base/device_spec.h"
#include "profiler/device/cuda/cuda_memory.h"

namespace mptune::profiler {

/// Streams and memory of one Device. Devices with the same name share multiprocessors, nothing else.
struct CudaLanes {
  DeviceSpec spec;
  std::string gpu;  ///< model and multiprocessors: "NVIDIA H200, 66 SMs of 132"
  int sms = 0;
  std::int64_t memory_bytes = 0;  ///< of the whole GPU
  c10::cuda::CUDAStream compute;
  c10::cuda::CUDAStream copy_in;   ///< from the host to this device
  c10::cuda::CUDAStream copy_out;  ///< from this device, to the host or to others
  CudaAccount account;

  [[nodiscard]] c10::Device device() const { return {c10::DeviceType::CUDA, compute.device_index()}; }
};

/// Returns the lanes for one device: those of an earlier device of this name that is gone (with the memory that LibTorch caches for their
/// streams), else new ones. They live until the process ends. Thread-safe. Throws Error (environment) if the device is not available.
[[nodiscard]] std::shared_ptr<CudaLanes> take_cuda_lanes(const DeviceSpec& spec);

}  // namespace mptune::profiler
