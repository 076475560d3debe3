#pragma once

#include <string>
#include <vector>

#include "planner/plan/plan.h"

namespace mptune::planner {

/// Returns the group of each device of a plan with ExecutionOptions::idle_devices_help. Devices of one group compute weight gradients for
/// one another. CPU devices of one rank with equally many intra-op threads are a group, since another number of threads would give other
/// bits. A device with group -1 neither helps nor is helped. `threads` is as in ExecutionOptions.
[[nodiscard]] std::vector<int> helping_groups(const std::vector<std::string>& devices, const std::vector<int>& threads = {});

/// True if there are at least two devices, and all are in one group.
[[nodiscard]] bool all_can_help(const std::vector<std::string>& devices);

/// True if a row of the plan has gradients of inputs or of weights as separate actions.
[[nodiscard]] bool splits_backward(const Plan& plan);

}  // namespace mptune::planner
