#pragma once

#include <span>
#include <vector>

#include "mptune/profiler/trace/trace.h"

namespace mptune {

/// Start of every one of `durations.size()` pieces of work: each begins when all its producers have ended, at 0 without any. Edges name
/// pieces by index. Requires: edges that form no cycle and name pieces that exist (throws std::invalid_argument). O(pieces + edges).
[[nodiscard]] std::vector<Nanoseconds> replay_starts(std::span<const Edge> edges, std::span<const Nanoseconds> durations);

/// Re-times a trace from its own edges: every event starts when all its producers have ended (at 0 without any) and lasts `durations[i]`.
/// Events keep their index; ranges, launches, memory and steps are dropped, since they are not known any more; `simulated` is set.
/// Requires: as many durations as events, edges that form no cycle (throws std::invalid_argument otherwise). O(events + edges).
[[nodiscard]] Trace replay(const Trace& trace, std::span<const Nanoseconds> durations);

/// `event` as an index. Throws std::invalid_argument where there are not as many events.
[[nodiscard]] std::size_t checked_event(int event, std::size_t count);

}  // namespace mptune
