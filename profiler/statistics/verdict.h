#pragma once

#include <string>

#include "mptune/profiler/statistics/samples.h"

namespace mptune {

/// What a comparison may claim.
enum class Verdict {
  fast,       ///< faster: interval wholly above 1, not wholly within 2 % of it
  slow,       ///< slower, likewise
  same,       ///< interval within +-2 % of 1, whichever side
  ambiguous,  ///< the interval holds 1 and leaves the band of +-2 %
  unknown,    ///< too few pairs to say
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

/// Compares samples taken in the same rounds of one interleaved series; samples without a partner in their round are left out,
/// several of one side in a round (ABBA) count as their median.
/// Fewer than 5 pairs: unknown.
[[nodiscard]] Speedup paired_speedup(const Samples& baseline, const Samples& candidate);

}  // namespace mptune
