#pragma once

#include <vector>

#include "profiler/trace/ranks/joined_trace.h"
#include "profiler/trace/ranks/meetings.h"

namespace mptune::profiler {

/// Returns how long devices are in kernels of communications that met nothing, and compute nothing meanwhile; within the steps, if there
/// are any. How much of it is waiting is not known. Requires: the trace as join_traces() and settle_steps() leave it.
[[nodiscard]] Nanoseconds unmatched_time(const JoinedTrace& joined, const std::vector<RankRecording>& recordings, const Meetings& meetings);

}  // namespace mptune::profiler
