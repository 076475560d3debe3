#pragma once

#include <span>

#include "mptune/profiler/statistics/samples.h"

namespace mptune {

/// Number of leading values that are warm-up: the smallest w such that the median of the rest of the first window is not above the
/// later values by more than their own spread. At most half of the values.
[[nodiscard]] int warm_up_length(std::span<const double> values);

/// When to stop repeating a measurement.
struct StoppingRule {
  int least = 3;                 ///< samples before the rule may say stop
  int most = 50;                 ///< samples after which it says stop in any case
  double relative_width = 0.01;  ///< stop when the 95 % interval is narrower than this share of the median
};

[[nodiscard]] bool should_stop(const Samples& samples, const StoppingRule& rule);

}  // namespace mptune
