#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mptune/planner/plan.h"
#include "mptune/planner/search/search.h"
#include "mptune/profiler/trace/profile.h"

namespace mptune {

/// The best plan by another objective than the simulated step.
struct ObjectivePlan {
  Plan plan;
  double step_s = 0;  ///< by the objective
  double lower_bound_s = 0;
  double gap = 0;
  std::vector<std::int64_t> peak_bytes;  ///< per device, by the objective's own rule
};

/// The best straight 1f1b pipeline of the space by the plain closed form (planner/published/closed_form.h): stages on the first devices,
/// every number of stages and micro-batches that the space allows. Throws Error: choices that a closed form does not know; infeasible.
[[nodiscard]] ObjectivePlan plan_by_closed_form(const SearchSpace& space, const CostModel& cost);

/// The best pipeline with one stage per device by Aceso's objective (planner/published/aceso.h), from the operator tables with this prefix,
/// links as in the profile. Throws Error likewise.
[[nodiscard]] ObjectivePlan plan_by_aceso(const SearchSpace& space, const std::string& prefix, const Profile& profile);

}  // namespace mptune
