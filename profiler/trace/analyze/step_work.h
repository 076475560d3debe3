#pragma once

#include <vector>

#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// Consecutive events of one lane that belong to one action: a stage's forward of a micro-batch, a copy, a parameter update.
struct Work {
  EventKind kind = EventKind::forward;
  int name = 0;  ///< of its first event
  int device = 0;
  int lane = 0;
  Tag tag;        ///< of its first event, without the layer
  int copy = -1;  ///< index into Trace::copies
  Nanoseconds start{0};
  Nanoseconds end{0};
  Nanoseconds busy{0};  ///< sum of its events' durations, without the gaps between them
};

/// One step as a graph of work. Edges are the order of each lane and the trace's edges between two pieces of work.
struct StepWork {
  StepWindow window;
  std::vector<Work> works;  ///< by start
  std::vector<Edge> edges;  ///< indices into works
};

/// Returns the windows to analyse: the trace's steps. A trace without steps has one window, from the first start to the last end of the
/// devices' work and of ranges of steps; waits and the recorder's own work, which are timed on the host, count only if nothing else lasts.
[[nodiscard]] std::vector<StepWindow> windows_of(const Trace& trace);

/// Returns every step of a trace. An event belongs to the window in which it starts; events outside of all windows are left out.
/// Requires: events ordered by start, edges that name events (throws std::invalid_argument). O(events log windows + edges log edges).
[[nodiscard]] std::vector<StepWork> step_works(const Trace& trace);

}  // namespace mptune::profiler
