#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/search/space/search_space.h"

namespace mptune::planner {

/// Returns for each device of the space the first device that a plan may have in its place at no other cost: one of equal class, cap and
/// links. `caps` has the cap of each device. Throws Error for devices that the profile does not know.
[[nodiscard]] std::vector<int> alike_devices(const SearchSpace& space, const CostModel& cost, const std::vector<std::int64_t>& caps);

}  // namespace mptune::planner
