#pragma once

#include <vector>

#include "profiler/ranks/joined_trace.h"
#include "profiler/ranks/meetings.h"

namespace mptune::profiler {

/// How long devices are in kernels of communications that met nothing, and compute nothing meanwhile; within the steps, where there are
/// any. How much of it they wait is not known. Requires: as join_traces() and settle_steps() leave the trace.
[[nodiscard]] Nanoseconds unmatched_time(const JoinedTrace& joined, const std::vector<RankRecording>& recordings, const Meetings& meetings);

}  // namespace mptune::profiler
