#pragma once

#include <limits>

namespace mptune {

/// How much longer something may take than the least that is possible, as a share of the latter: found / bound - 1. 0 is a proof that
/// nothing is better; infinite where the bound is 0 and proves nothing.
[[nodiscard]] inline double gap_to(double bound, double found) {
  if (found <= bound) return 0;
  return bound > 0 ? found / bound - 1 : std::numeric_limits<double>::infinity();
}

}  // namespace mptune
