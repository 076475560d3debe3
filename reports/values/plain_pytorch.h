#pragma once

#include <string>
#include <vector>

#include "planner/plan/plan.h"

namespace mptune::reports {

/// Returns the lines of PyTorch that make a program compute as the plan does, without mptune. Empty where that takes more than settings:
/// several devices or micro-batches, recomputation, other kernels, a part of a device.
///
///     torch.set_num_threads(2)
///     model = model.to(memory_format=torch.channels_last)
[[nodiscard]] std::vector<std::string> plain_pytorch(const Plan& plan);

}  // namespace mptune::reports
