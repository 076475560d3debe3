#pragma once

#include <span>

#include "mptune/profiler/trace/trace.h"

namespace mptune {

/// Re-times a trace from its own edges: every event starts when all its producers have ended (at 0 without any) and lasts `durations[i]`.
/// Events keep their index; ranges, launches, memory and steps are dropped, since they are not known any more; `simulated` is set.
/// Requires: as many durations as events, edges that form no cycle (throws std::invalid_argument otherwise). O(events + edges).
[[nodiscard]] Trace replay(const Trace& trace, std::span<const Nanoseconds> durations);

}  // namespace mptune
