#pragma once

#include <cstdint>
#include <string>
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

/// Fills the plan's rows with the schedule `name`, made from these prices within the same caps. `list` is no slower in the simulator than
/// any named schedule that the plan's stages allow and that keeps as few bytes too many: where the prices leave out what the simulator
/// knows (links that share a medium, devices that slow each other, unequal micro-batches, replicas), it may have the rows of one.
/// Requires and throws what schedule_costs and make_schedule do.
void schedule_plan(Plan& plan, const std::string& name, const CostModel& cost, const std::vector<std::int64_t>& memory_bytes = {});

}  // namespace mptune
