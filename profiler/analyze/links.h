#pragma once

#include <cstdint>
#include <vector>

#include "mptune/profiler/trace/trace.h"

namespace mptune {

/// What one direction of one link did over the whole trace.
struct LinkUse {
  int source = 0;
  int destination = 0;
  std::int64_t copies = 0;
  std::int64_t bytes = 0;
  Nanoseconds time{0};     ///< during which at least one copy ran; bytes over time is the achieved bandwidth
  Nanoseconds exposed{0};  ///< part of it during which the destination computed nothing
  bool operator==(const LinkUse&) const = default;
};

/// Every direction that carried a copy, ordered by source and destination. O(n log n).
[[nodiscard]] std::vector<LinkUse> link_use(const Trace& trace);

/// The most by which any work began before what it waited for had ended: a bound of the error of the trace's clocks; 0 for none.
[[nodiscard]] Nanoseconds worst_violation(const Trace& trace);

}  // namespace mptune
