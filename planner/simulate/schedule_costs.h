#pragma once

#include <cstdint>
#include <vector>

#include "mptune/planner/cost/cost_model.h"
#include "mptune/planner/plan.h"
#include "mptune/planner/schedule/costs.h"

namespace mptune {

/// What schedules of the plan's stages, devices and micro-batches are made from, whatever its actions: the simulator's own prices with the
/// other devices idle (the cost of an action and what is computed again included) of the largest micro-batch on the slowest replica. Kept
/// bytes hold what the stage received. `memory_bytes`: a cap per device of the plan, 0 or an empty list: none; of a cap, what parameters,
/// gradients, optimizer, buffers, workspace, reserve and four gradients on their way do not take is free, at least 0: an estimate of what
/// peak_bytes says of a schedule. Requires: a valid plan. Throws Error for an unknown device or link.
[[nodiscard]] ScheduleCosts schedule_costs(const Plan& plan, const CostModel& cost, const std::vector<std::int64_t>& memory_bytes = {});

}  // namespace mptune
