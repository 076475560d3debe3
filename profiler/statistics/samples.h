#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mptune {

/// One measured value. `round` and `position` say when in an interleaved series it was taken; pairs are formed by round.
struct Sample {
  double value = 0;    ///< seconds, unless its owner says otherwise
  int round = 0;       ///< round of the series
  int position = 0;    ///< place within the round
  double started = 0;  ///< seconds since the series began
  bool operator==(const Sample&) const = default;
};

/// All samples of a measurement, in the order they were taken.
struct Samples {
  std::vector<Sample> values;
  [[nodiscard]] bool empty() const { return values.empty(); }
  [[nodiscard]] std::size_t size() const { return values.size(); }
  bool operator==(const Samples&) const = default;
};

struct Interval {
  double low = 0;
  double high = 0;
  bool operator==(const Interval&) const = default;
};

/// One sample of a value that is known exactly (a simulation, a public profile).
[[nodiscard]] Samples exactly(double value);

/// Samples of the given values, rounds counted from 0.
[[nodiscard]] Samples samples_of(const std::vector<double>& values);

/// Median of the values. Requires: not empty (throws std::invalid_argument).
[[nodiscard]] double median(const Samples& samples);
[[nodiscard]] double median(std::vector<double> values);

/// Interquartile range over the median, as a fraction; 0 for fewer than 2 samples.
[[nodiscard]] double spread(const Samples& samples);

/// 95 % confidence interval of the median, from order statistics (binomial; no normality assumed).
/// With fewer than 6 samples no pair of order statistics reaches 95 %: [min, max] is returned.
/// Requires: not empty (throws std::invalid_argument).
[[nodiscard]] Interval interval95(const Samples& samples);
[[nodiscard]] Interval interval95(std::vector<double> values);

}  // namespace mptune
