#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/search/space/search_space.h"

namespace mptune::planner {

/// Returns the cap of each of the space's devices; 0: none.
[[nodiscard]] std::vector<std::int64_t> caps_of(const SearchSpace& space);
/// Returns the cap of each of the plan's devices, which the space has, those of all cores included; 0: none.
[[nodiscard]] std::vector<std::int64_t> caps_of(const SearchSpace& space, const Plan& plan);
/// Returns half of what the un-pipelined model needs on the first device, in bytes.
[[nodiscard]] std::int64_t half_of_one_device(const SearchSpace& space, const CostModel& cost);

}  // namespace mptune::planner
