#pragma once

#include <span>

#include "profiler/trace/statistics/samples.h"

namespace mptune::profiler {

/// Returns the number of leading values that are warm-up: at most half of the values, 0 for fewer than 4. It is the smallest w for which
/// neither value w nor the median of values w .. w + 2 exceeds the limit.
/// The limit is the median of the second half of all values plus that half's interquartile range.
[[nodiscard]] int warm_up_length(std::span<const double> values);

/// When to stop repeating a measurement.
struct StoppingRule {
  int least = 3;                 ///< never stop with fewer samples
  int most = 50;                 ///< always stop with this many samples
  double relative_width = 0.01;  ///< stop when the 95 % interval (the range, if samples are few) is no wider than this share of the median
};

[[nodiscard]] bool should_stop(const Samples& samples, const StoppingRule& rule);

}  // namespace mptune::profiler
