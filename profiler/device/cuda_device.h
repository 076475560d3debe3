#pragma once

#include <memory>

#include "mptune/profiler/device/device.h"

namespace mptune {

/// A GPU or a part of one. Throws Error (environment) if it can't be had.
[[nodiscard]] std::shared_ptr<Device> make_cuda_device(const DeviceSpec& spec);

}  // namespace mptune
