#pragma once

#include <optional>
#include <string>
#include <vector>

#include "profiler/trace/statistics/samples.h"

namespace mptune {

/// Result of comparing two plans. With few pairs, the plans are told apart only if the times of the two do not overlap.
enum class Verdict {
  fast,       ///< faster: the interval lies above 1, and not entirely within 2 % of it
  slow,       ///< slower: the interval lies below 1, and not entirely within 2 % of it
  same,       ///< the interval lies entirely within 2 % of 1
  ambiguous,  ///< the interval contains 1 but reaches beyond 2 % of it
  unknown,    ///< too few pairs
};

/// Returns "FAST", "SLOW", "SAME", "AMBIGUOUS" or "UNKNOWN".
[[nodiscard]] const char* to_string(Verdict verdict);
/// The inverse of to_string; throws Error on any other text.
[[nodiscard]] Verdict verdict_from(const std::string& text);

/// Time of a baseline over time of a candidate: above 1 the candidate is faster.
struct Speedup {
  double estimate = 1;              ///< median of the paired ratios
  std::optional<Interval> ci95{};   ///< interval of that median, which decides the verdict; empty for fewer than kLeastForInterval pairs
  std::optional<Interval> range{};  ///< least and largest of the paired ratios; empty if there are none
  int pairs = 0;
  Verdict verdict = Verdict::unknown;
  std::optional<double> error_rate{};  ///< for `fast` and `slow`: the highest probability that two equal plans get this verdict
  std::string reason;                  ///< why this verdict, one clause
  bool operator==(const Speedup&) const = default;
};

/// Returns the highest probability that all `pairs` times of either of two equal plans lie above all times of the other: 2 / C(2 pairs,
/// pairs); 1 for no pairs. It holds if both times of a round have one distribution, whatever that is in the other rounds: drift from round
/// to round only makes it rarer.
[[nodiscard]] double chance_of_apart(int pairs);

/// Number of pairs from which chance_of_apart() is at most 5 %: fewer pairs never have a verdict.
inline constexpr int kLeastPairs = 4;

/// Compares samples of the same rounds of one interleaved series. From kLeastForInterval pairs on, the interval of their ratios decides.
/// From kLeastPairs pairs on, the plans are told apart if all times of one lie above all times of the other. Else the verdict is unknown.
/// Samples without a partner in their round are left out; several samples of one side in a round (ABBA) count as their median. `confidence`
/// is that of the interval for one comparison by itself. It is more than 0.95 for a candidate that was chosen as the fastest of several, so
/// that 95 % remain although it was lucky.
[[nodiscard]] Speedup paired_speedup(const Samples& baseline, const Samples& candidate, double confidence = 0.95);

/// The median of a measurement, with its confidence interval.
struct MedianEstimate {
  double median = 0;
  std::optional<Interval> ci95{};  ///< empty for fewer than kLeastForInterval samples
  int samples = 0;
  bool operator==(const MedianEstimate&) const = default;
};
/// Returns the median and its interval. Requires: not empty (throws std::invalid_argument).
[[nodiscard]] MedianEstimate estimate(const Samples& samples);

/// A change by at most this share counts as none.
inline constexpr double kSameBand = 0.02;

/// Time of B over time of A: above 1, B is slower. The verdict is about B: `fast` if the interval lies below 1; `slow` if it lies above 1
/// and the estimate is beyond the band; `same` if the interval lies within the band around 1; else `ambiguous`.
struct TimeRatio {
  double estimate = 1;
  std::optional<Interval> ci95{};
  Verdict verdict = Verdict::unknown;
  std::string reason;  ///< why this verdict, one clause
  bool operator==(const TimeRatio&) const = default;
};

/// Compares medians of two measurements that were not interleaved; drift between them remains in the result. The estimate is the ratio of
/// the medians.
/// The interval combines those of the medians by the sum of squared log distances (MOVER by Zou and Donner): it covers at least 95 %. If a
/// side has no interval, there is none and the verdict is unknown. Requires: positive medians and intervals, band >= 0 (throws
/// std::invalid_argument).
[[nodiscard]] TimeRatio unpaired_ratio(const MedianEstimate& a, const MedianEstimate& b, double band = kSameBand);

/// Compares several recordings of each side by their medians: the recordings are the samples, so the interval contains what changes between
/// recordings. The estimate is the ratio of the geometric means; the interval is Student's for logarithms of one variance.
/// Requires: positive times, at least one on each side and three together, band >= 0 (throws std::invalid_argument).
[[nodiscard]] TimeRatio ratio_of_recordings(const std::vector<double>& a, const std::vector<double>& b, double band = kSameBand);

/// Returns the 95 % interval of mean(b) - mean(a) by Welch's t. Requires: at least 2 values on each side (throws std::invalid_argument).
[[nodiscard]] Interval mean_difference95(const std::vector<double>& a, const std::vector<double>& b);

/// Returns the interval by Student's t, for values of one variance on both sides: few values then say more.
/// Requires: at least one value on each side and three together (throws std::invalid_argument).
[[nodiscard]] Interval pooled_difference95(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace mptune
