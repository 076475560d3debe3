#pragma once

#include <vector>

#include "planner/topology/topology_search.h"
#include "planner/topology/uniform_plan.h"

namespace mptune::planner {

/// Returns all shapes of the space on `devices` devices, with at most `most_stages` stages; one placement where both are the same.
[[nodiscard]] std::vector<UniformShape> uniform_shapes(const UniformSpace& space, int devices, int most_stages);

}  // namespace mptune::planner
