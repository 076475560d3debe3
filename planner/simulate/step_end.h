#pragma once

#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/plan/plan.h"
#include "planner/simulate/operations.h"

namespace mptune::planner {

/// Adds what follows all actions of a step: sums of gradients over the replicas of each stage, and its updates. `devices`: the plan's, as
/// indices in the profile. On machines on paper (Profile::network) every replica sums, by the all-reduce that takes least, and updates.
void add_step_end(const Plan& plan, const CostModel& cost, const std::vector<int>& devices, Operations& operations);

}  // namespace mptune::planner
