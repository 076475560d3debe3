#pragma once

#include <vector>

#include "planner/topology/topology_search.h"
#include "planner/topology/uniform_plan.h"

namespace mptune::planner {

/// All shapes of the space on so many devices, with at most so many stages; one placement where both are the same.
[[nodiscard]] std::vector<UniformShape> uniform_shapes(const UniformSpace& space, int devices, int most_stages);

}  // namespace mptune::planner
