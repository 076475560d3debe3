#pragma once

#include "planner/plan/plan.h"
#include "profiler/trace/values/profile.h"

namespace mptune::planner {

/// Returns a profile of one layer per stage of the plan. All layers take `forward_s` a sample, and nothing else costs anything. A backward
/// takes twice its forward, as matrix products do: as long for the gradients of the inputs, and as long for those of the weights.
[[nodiscard]] Profile even_profile(const Plan& plan, double forward_s);
/// Returns the plan with one of these layers in each stage, and nothing recomputed.
[[nodiscard]] Plan even_plan(Plan plan);

}  // namespace mptune::planner
