#pragma once

#include <string>

#include "profiler/statistics/samples.h"

namespace mptune {

/// Result of comparing two plans.
enum class Verdict {
  fast,       ///< faster: the interval lies above 1, and not entirely within 2 % of it
  slow,       ///< slower: the interval lies below 1, and not entirely within 2 % of it
  same,       ///< the interval lies entirely within 2 % of 1
  ambiguous,  ///< the interval contains 1 but reaches beyond 2 % of it
  unknown,    ///< too few pairs
};

/// "FAST", "SLOW", "SAME", "AMBIGUOUS", "UNKNOWN".
[[nodiscard]] const char* to_string(Verdict verdict);
/// Inverse of to_string; throws Error on any other text.
[[nodiscard]] Verdict verdict_from(const std::string& text);

/// Time of a baseline over time of a candidate: above 1 the candidate is faster.
struct Speedup {
  double estimate = 1;  ///< median of the paired ratios
  Interval ci95{1, 1};  ///< of that median
  int pairs = 0;
  Verdict verdict = Verdict::unknown;
  std::string reason;  ///< why this verdict, one clause
  bool operator==(const Speedup&) const = default;
};

/// Compares samples of the same rounds of one interleaved series. Fewer than 6 pairs: unknown.
/// Samples without a partner in their round are left out; several of one side in a round (ABBA) count as their median.
/// `confidence`: of the interval that decides the verdict; that which is returned has 95 %.
[[nodiscard]] Speedup paired_speedup(const Samples& baseline, const Samples& candidate, double confidence = 0.95);

/// Median of a measurement, with its confidence interval.
struct MedianEstimate {
  double median = 0;
  Interval ci95;
  int samples = 0;
  bool operator==(const MedianEstimate&) const = default;
};
/// Requires: not empty (throws std::invalid_argument).
[[nodiscard]] MedianEstimate estimate(const Samples& samples);

/// Time of B over time of A: above 1, B is slower. The verdict is about B.
struct TimeRatio {
  double estimate = 1;  ///< ratio of the medians
  Interval ci95{1, 1};
  Verdict verdict = Verdict::unknown;
  std::string reason;  ///< why this verdict, one clause
  bool operator==(const TimeRatio&) const = default;
};

/// Compares medians of two measurements that were not interleaved; drift between them remains in the result.
/// The interval combines those of the medians by the sum of squared log distances (MOVER by Zou and Donner): it covers at least 95 %.
/// Fewer than 5 samples on a side: unknown. Requires: positive medians and intervals (throws std::invalid_argument).
[[nodiscard]] TimeRatio unpaired_ratio(const MedianEstimate& a, const MedianEstimate& b);

/// 95 % interval of mean(b) - mean(a) by Welch's t. Requires: at least 2 values on each side (throws std::invalid_argument).
[[nodiscard]] Interval mean_difference95(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace mptune
