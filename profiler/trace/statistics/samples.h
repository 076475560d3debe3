#pragma once

#include <cstdint>
#include <optional>
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

/// Returns one sample of a value that is known exactly (a simulation, a public profile).
[[nodiscard]] Samples exactly(double value);

/// Returns samples of the given values, with rounds counted from 0.
[[nodiscard]] Samples samples_of(const std::vector<double>& values);

/// Returns the median of the values. Requires: not empty (throws std::invalid_argument).
[[nodiscard]] double median(const Samples& samples);
[[nodiscard]] double median(std::vector<double> values);

/// Returns the interquartile range over the median, as a fraction; 0 for fewer than 2 samples.
[[nodiscard]] double spread(const Samples& samples);

/// Number of samples from which the median has a 95 % interval: the range of five covers it with 93.8 %, the range of six with 96.9 %.
inline constexpr std::size_t kLeastForInterval = 6;

/// Returns the 95 % confidence interval of the median, from order statistics; no normality is assumed. A pair of order statistics covers
/// the median with one of few probabilities, so the interval lies between the narrowest pair that reaches 95 % and the next (Hettmansperger
/// and Sheather, 1986). Empty for fewer than kLeastForInterval samples, of which no pair reaches 95 %.
[[nodiscard]] std::optional<Interval> interval95(const Samples& samples);
[[nodiscard]] std::optional<Interval> interval95(std::vector<double> values);
/// Does the same for another confidence, 0.95 to 1. If kLeastForInterval samples or more do not reach it, returns the least and the
/// largest.
[[nodiscard]] std::optional<Interval> median_interval(std::vector<double> values, double confidence);

/// Returns the least and the largest value. Requires: not empty (throws std::invalid_argument).
[[nodiscard]] Interval range_of(const std::vector<double>& values);
[[nodiscard]] Interval range_of(const Samples& samples);

/// Two lengths between which a measurement jumps.
struct TwoModes {
  double low = 0;         ///< median of the lower group
  double high = 0;        ///< median of the higher group
  double share_high = 0;  ///< share of the samples in the higher group
};

/// Returns the two groups that the samples fall into, if there are: each has at least a fifth of the samples and at least 5, the medians
/// differ by 5 % or more, and the empty space between the groups is wider than both interquartile ranges together. Else returns nullopt.
[[nodiscard]] std::optional<TwoModes> two_modes(const Samples& samples);

}  // namespace mptune
