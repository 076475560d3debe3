#pragma once

#include <memory>

#include "mptune/profiler/device/cuda_lanes.h"
#include "mptune/profiler/device/device.h"

namespace mptune {

/// A GPU or a part of one. Throws Error (environment) if it can't be had.
[[nodiscard]] std::shared_ptr<Device> make_cuda_device(const DeviceSpec& spec);

/// The lanes of a device that make_cuda_device made; null for another.
[[nodiscard]] std::shared_ptr<CudaLanes> cuda_lanes_of(const Device& device);

}  // namespace mptune
