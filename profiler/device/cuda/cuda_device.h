#pragma once

#include <memory>

#include "profiler/device/cuda/cuda_lanes.h"
#include "profiler/device/device.h"

namespace mptune::profiler {

/// Makes a GPU or a part of one. Throws Error (environment) if it is not available.
[[nodiscard]] std::shared_ptr<Device> make_cuda_device(const DeviceSpec& spec);

/// Returns the lanes of a device of make_cuda_device; null for other devices.
[[nodiscard]] std::shared_ptr<CudaLanes> cuda_lanes_of(const Device& device);

}  // namespace mptune::profiler
