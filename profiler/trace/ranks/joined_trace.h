#pragma once

#include <vector>

#include "profiler/trace/ranks/clocks.h"
#include "profiler/trace/values/communication.h"
#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// All recordings as one trace on the common clock, and where their events went. Events are in the order of the recordings.
struct JoinedTrace {
  Trace trace;
  std::vector<int> first_event;  ///< by recording: index of its first event; they follow each other as in the recording
  std::vector<int> rank_of;      ///< by device
  Nanoseconds started{0};        ///< time 0 of the trace, on the common clock

  [[nodiscard]] int event(int recording, int own) const { return first_event[static_cast<std::size_t>(recording)] + own; }
};

enum class JoinedTags { none, kept };

/// Joins the recordings: names, threads, kernels, copies and devices become one list each; losses are summed. Ranges stay; tags stay if
/// asked; memory samples and steps are on the common clock. Steps are those that all recordings have. `started_utc_ns` is the time of day
/// of time 0.
/// Throws Error (usage): more than 4096 devices.
[[nodiscard]] JoinedTrace join_traces(const std::vector<RankRecording>& recordings, const std::vector<AlignedClock>& clocks,
                                      JoinedTags tags = JoinedTags::none);

}  // namespace mptune::profiler
