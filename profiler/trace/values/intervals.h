#pragma once

#include <vector>

#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// Half-open stretch of time [start, end).
struct TimeInterval {
  Nanoseconds start{0};
  Nanoseconds end{0};
  bool operator==(const TimeInterval&) const = default;
};

/// Returns disjoint, ordered intervals that cover the same times; empty ones are dropped. O(n log n).
[[nodiscard]] std::vector<TimeInterval> merge(std::vector<TimeInterval> intervals);

/// Returns the part of `interval` inside `window`; start == end if they do not overlap.
[[nodiscard]] TimeInterval clip(TimeInterval interval, TimeInterval window);

/// Returns the sum of lengths. Requires: disjoint.
[[nodiscard]] Nanoseconds total(const std::vector<TimeInterval>& intervals);

/// Returns the common part of two merged lists.
[[nodiscard]] std::vector<TimeInterval> intersect(const std::vector<TimeInterval>& a, const std::vector<TimeInterval>& b);

}  // namespace mptune::profiler
