#pragma once

#include <vector>

#include "mptune/profiler/trace/trace.h"

namespace mptune {

/// Consecutive leaves of one lane that belong to one action: a stage's forward of a micro-batch, one copy, one update.
struct Work {
  What what = What::forward;
  int name = 0;  ///< of its first leaf
  int device = 0;
  int lane = 0;
  Tag tag;        ///< of its first leaf, without the layer
  int copy = -1;  ///< index into Trace::copies
  Nanoseconds start{0};
  Nanoseconds end{0};
  Nanoseconds busy{0};  ///< sum of its leaves: gaps between them are not work
};

/// One step as work and what waits for what: the order of each lane, and every edge of the trace between two pieces of work.
struct StepWork {
  StepWindow window;
  std::vector<Work> works;  ///< by start
  std::vector<Edge> edges;  ///< of indices into works
};

/// The windows that an analysis looks at: the trace's steps; without any, one from the first to the last event.
[[nodiscard]] std::vector<StepWindow> windows_of(const Trace& trace);

/// Every step of a trace; events belong to the window that they start in, those outside of all are left out.
/// Requires: events ordered by start, edges that name events (throws std::invalid_argument). O(events log windows + edges log edges).
[[nodiscard]] std::vector<StepWork> step_works(const Trace& trace);

}  // namespace mptune
