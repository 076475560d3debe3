#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/plan/plan.h"
#include "planner/search/space/search_space.h"

namespace mptune::planner {

/// Returns the plan with weight gradients fused in groups of sizes[s] consecutive micro-batches of each stage s, from the first on; 1:
/// none. A group stands where its last weight gradients stood. Micro-batches with a whole backward, and stages with replicas, stay as they
/// are. Requires: nothing is fused yet.
[[nodiscard]] Plan with_fused_weights(Plan plan, const std::vector<int>& sizes);

struct FusedSearch {
  std::optional<Candidate> faster;  ///< absent: no fusing saves at least 1 % of the step
  std::int64_t simulated = 0;       ///< number of plans simulated
};

/// Looks for the group sizes (1, 2, 4 .. and all micro-batches) that make a plan's step shortest within `caps` (per device of the plan, 0:
/// none). It changes one stage at a time, until no change helps or `most_simulated` plans were simulated, so another choice of several
/// stages at once may be faster.
[[nodiscard]] FusedSearch fuse_weights(const Candidate& plain, const std::vector<std::int64_t>& caps, const CostModel& cost,
                                       std::int64_t most_simulated = std::numeric_limits<std::int64_t>::max());

}  // namespace mptune::planner
