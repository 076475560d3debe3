#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/plan/plan.h"
#include "planner/search/space/search_space.h"

namespace mptune::planner {

/// True if a search of the space may offload saved activations: the runtime can, a cap is given, and recomputation is left open or ruled
/// out.
[[nodiscard]] bool may_offload(const SearchSpace& space);

/// Returns the plan with all stages on devices that hold more than their cap (`caps`, per device of the plan; 0: none) offloading what they
/// save, if it then fits. `peaks` are the plan's. Returns nullopt if it does not fit, for a plan that recomputes, and where copies to the
/// host were not measured.
[[nodiscard]] std::optional<Plan> offloading_over_caps(Plan plan, const std::vector<std::int64_t>& peaks,
                                                       const std::vector<std::int64_t>& caps, const CostModel& cost);

struct OffloadSearch {
  std::optional<Candidate> faster;  ///< absent: no offloading makes the step shorter
  std::int64_t simulated = 0;       ///< number of plans simulated
};

/// Looks for stages of a plan that recompute and would better offload, within the caps: all of them, and one after another as long as the
/// step gets shorter. Other choices of several stages may be faster.
[[nodiscard]] OffloadSearch offload_recomputed(const Candidate& plain, const std::vector<std::int64_t>& caps, const CostModel& cost);

}  // namespace mptune::planner
