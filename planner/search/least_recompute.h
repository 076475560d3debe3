#pragma once

#include <cstdint>
#include <vector>

#include "mptune/planner/cost/cost_model.h"
#include "mptune/planner/plan.h"

namespace mptune {

/// The plan with as little computed again as its devices' caps (per device of the plan, 0: none) ask for: on every device that would
/// exceed its cap, of all sets of layers that make it fit, the one whose forwards take least, exact for a stage of micro-batches of equal
/// size. Whole stages where that is not enough: then the plan may still exceed its caps.
/// Rows stay as they are. Requires: a valid plan with rows and no recomputation.
[[nodiscard]] Plan with_least_recompute(Plan plan, const std::vector<std::int64_t>& caps, const CostModel& cost);

}  // namespace mptune
