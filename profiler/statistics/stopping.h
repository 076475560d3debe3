#pragma once

#include <span>

#include "mptune/profiler/statistics/samples.h"

namespace mptune {

/// Number of leading values that are warm-up: the smallest w such that neither value w nor the median of the three from w on lies above
/// the median of the second half by more than that half's interquartile range. At most half of the values; 0 for fewer than 4.
[[nodiscard]] int warm_up_length(std::span<const double> values);

/// When to stop repeating a measurement.
struct StoppingRule {
  int least = 3;                 ///< samples before the rule may say stop
  int most = 50;                 ///< samples after which it says stop in any case
  double relative_width = 0.01;  ///< stop when the 95 % interval is no wider than this share of the median
};

[[nodiscard]] bool should_stop(const Samples& samples, const StoppingRule& rule);

}  // namespace mptune
