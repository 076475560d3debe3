#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace mptune::planner {

/// A plan of a family with everything that ranks it.
struct RatedCuts {
  std::vector<int> cuts;
  std::int64_t step_ns = 0;
  std::int64_t copied_bytes = 0;
  std::int64_t peak_bytes = 0;
  std::int64_t excess_bytes = 0;  ///< most bytes over a cap; above 0 the plan does not fit and step_ns is not set
  int excess_device = -1;
  std::vector<int> recomputed;
};

/// The plans of one family that the simulator has rated, by their cuts. Caps and recomputation are a part of the family.
using KnownRates = std::map<std::vector<int>, RatedCuts>;

}  // namespace mptune::planner
