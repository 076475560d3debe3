#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/plan/plan.h"
#include "planner/schedule/costs.h"

namespace mptune::planner {

/// Returns the costs from which schedules for the plan's stages, devices and micro-batches are made; its actions do not matter. Times are
/// the simulator's with the other devices idle, for the largest micro-batch on the slowest replica; fixed costs and recomputation are
/// included. Saved activations include what the stage received. `memory_bytes` has a cap per device of the plan; a cap of 0 or an empty
/// list means none. free_bytes is the cap without parameters, gradients, optimizer, buffers, workspace, reserve and four gradients being
/// copied, at least 0. It estimates what peak_bytes counts. Requires: a valid plan. Throws Error for an unknown device or link.
[[nodiscard]] ScheduleCosts schedule_costs(const Plan& plan, const CostModel& cost, const std::vector<std::int64_t>& memory_bytes = {});

/// Fills the plan's rows with the schedule `name`, made from these costs within the same caps. `list` is no slower in the simulator than
/// any named schedule that the plan's stages allow and that exceeds memory no more. Where the costs leave out what the simulator knows
/// (links that share a medium, devices that slow each other, unequal micro-batches, replicas), `list` may have the rows of a named
/// schedule. Requires and throws what schedule_costs and make_schedule do.
void schedule_plan(Plan& plan, const std::string& name, const CostModel& cost, const std::vector<std::int64_t>& memory_bytes = {});

}  // namespace mptune::planner
