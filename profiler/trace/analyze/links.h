#pragma once

#include <cstdint>
#include <vector>

#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// Use of one direction of a link over the whole trace.
struct LinkUse {
  int source = 0;
  int destination = 0;
  std::int64_t copies = 0;
  std::int64_t bytes = 0;
  Nanoseconds time{0};     ///< time with at least one copy running; bytes / time is the achieved bandwidth
  Nanoseconds exposed{0};  ///< part of `time` in which the destination does not compute
  bool operator==(const LinkUse&) const = default;
};

/// Returns every direction that carried a copy, ordered by source and destination. O(n log n).
[[nodiscard]] std::vector<LinkUse> link_use(const Trace& trace);

/// Returns the longest time by which any work started before its producer ended or its launch began; 0 if none did. It shows how far the
/// trace's clocks are off.
[[nodiscard]] Nanoseconds worst_violation(const Trace& trace);

}  // namespace mptune::profiler
