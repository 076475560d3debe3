#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/plan.h"

namespace mptune::planner {

struct LeastRecompute {
  Plan plan;
  std::int64_t worked = 0;  ///< in simulated actions
};

/// The plan with the least recomputation that fits the caps (per device of the plan, 0: none). On every device over its cap it chooses the
/// layers that make it fit and whose forwards take least, as least_set() finds them; exact for a stage of few layers with micro-batches of
/// equal size. The fewest last layers of one stage that make it fit are chosen instead where the simulated step is shorter with them.
/// Where neither is enough, whole stages are recomputed; then the plan may still exceed its caps.
/// Rows stay as they are. Requires: a valid plan with rows and no recomputation.
[[nodiscard]] LeastRecompute with_least_recompute(Plan plan, const std::vector<std::int64_t>& caps, const CostModel& cost);

}  // namespace mptune::planner
