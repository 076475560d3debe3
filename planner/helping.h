#pragma once

#include <string>
#include <vector>

#include "planner/plan.h"

namespace mptune::planner {

/// Which devices of a plan with ExecutionOptions::idle_devices_help compute weight gradients for one another: those of one group. CPU
/// devices of one rank and equally many intra-op threads are a group, since another number of threads would give other bits. -1: a device
/// that neither helps nor is helped. `threads`: see ExecutionOptions.
[[nodiscard]] std::vector<int> helping_groups(const std::vector<std::string>& devices, const std::vector<int>& threads = {});

/// True if there are at least two devices, and all are of one group.
[[nodiscard]] bool all_can_help(const std::vector<std::string>& devices);

/// True if a row of the plan has weight gradients as actions of their own.
[[nodiscard]] bool splits_backward(const Plan& plan);

}  // namespace mptune::planner
