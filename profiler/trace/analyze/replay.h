#pragma once

#include <span>
#include <vector>

#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// Returns the start times of work with these durations: each starts when all its producers have ended, at 0 without producers. Edges hold
/// indices into `durations`. Requires: valid indices, no cycle (throws std::invalid_argument). O(works + edges).
[[nodiscard]] std::vector<Nanoseconds> replay_starts(std::span<const Edge> edges, std::span<const Nanoseconds> durations);

/// Re-times a trace by its edges: event i starts when all its producers have ended (at 0 without producers) and lasts `durations[i]`.
/// Events keep their index. Ranges, launches, memory samples and steps are dropped; `simulated` is set.
/// Requires: as many durations as events, edges that form no cycle (throws std::invalid_argument otherwise). O(events + edges).
[[nodiscard]] Trace replay(const Trace& trace, std::span<const Nanoseconds> durations);

/// Returns `event` as an index. Throws std::invalid_argument unless 0 <= event < count.
[[nodiscard]] std::size_t checked_event(int event, std::size_t count);

}  // namespace mptune::profiler
