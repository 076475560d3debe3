#pragma once

#include <limits>

namespace mptune::planner {

/// Returns how far a found value may be above the least possible one: found / bound - 1. 0 proves that nothing is better. The gap is
/// infinite where the bound is 0 and proves nothing.
[[nodiscard]] inline double gap_to(double bound, double found) {
  if (found <= bound) return 0;
  return bound > 0 ? found / bound - 1 : std::numeric_limits<double>::infinity();
}

}  // namespace mptune::planner
