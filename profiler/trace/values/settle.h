#pragma once

#include <cstdint>
#include <vector>

#include "profiler/trace/values/plausible_times.h"
#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// Makes the events of every lane follow one another, as Trace promises: an event that starts inside its predecessor, by rounding or
/// because the file is odd, loses its beginning. Events that lose everything are counted in `quality.dropped`. Requires: events ordered by
/// start; they are ordered again afterwards, and launches and edges follow them. An edge whose consumer now starts before its producer is
/// removed and counted in `quality.unmatched`.
void settle_lanes(Trace& trace);

/// Orders the steps by time. A step that starts inside its predecessor loses its beginning; it is removed if it loses everything.
void settle_steps(Trace& trace);

/// Returns the number of the step that contains a time; -1: none. Requires: steps as settle_steps leaves them.
[[nodiscard]] int step_at(const std::vector<StepWindow>& steps, Nanoseconds time);

/// Bytes of all copies that a reader accepts, more than any machine moves: they may be added up.
inline constexpr std::int64_t kMostCopiedBytes = std::int64_t{1} << 60;

}  // namespace mptune::profiler
