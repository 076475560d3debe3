#pragma once

#include <memory>

#include "profiler/base/hardware.h"
#include "profiler/device/device.h"

namespace mptune::profiler {

/// Makes a device that is not there, to estimate what layers would cost on one. Its tensors are LibTorch's meta tensors, which have no
/// memory, and nothing is computed. Its clock advances by the estimated time of each operator (operator_cost.h) that the compute thread
/// calls, and its memory is that of the tensors that are alive, as autograd saves them. adopt() makes a host tensor a meta tensor.
/// Throws c10::Error where an operator needs a tensor's values. The first device installs install_shape_kernels().
[[nodiscard]] std::shared_ptr<Device> make_estimated_device(const Hardware& hardware);

}  // namespace mptune::profiler
