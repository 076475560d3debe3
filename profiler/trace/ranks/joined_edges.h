#pragma once

#include <vector>

#include "profiler/trace/ranks/joined_trace.h"
#include "profiler/trace/ranks/meetings.h"

namespace mptune::profiler {

/// Applies the meetings to a joined trace, as merge_ranks() describes it: shorter collectives, copies in place of sends and receives,
/// arrivals, and edges. Afterwards `first_event` of the joined trace is no longer valid; its events are ordered by start.
void join_meetings(JoinedTrace& joined, const std::vector<RankRecording>& recordings, const Meetings& meetings);

/// Name of the events that mark when a process reached a collective.
inline constexpr const char* kArrivalName = "arrival at a collective";

/// True if an event is a computation of the process's own: neither a communication nor a copy.
[[nodiscard]] bool computes(const Event& event);

}  // namespace mptune::profiler
