#pragma once

#include <cstdint>
#include <vector>

#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// Gives the events of a Kineto trace lanes by their `streams` (StreamLanes). Requires: events ordered by start.
void assign_lanes(Trace& trace, const std::vector<std::int64_t>& streams);

/// Lets the steps that the host marked last until their work has ended, at most until the next step. Requires: launches.
void end_steps(Trace& trace);

/// Leaves out a last step that ran on after the recording, as read_kineto says. Requires: launches ordered by start.
void leave_out_cut_step(Trace& trace);

}  // namespace mptune::profiler
