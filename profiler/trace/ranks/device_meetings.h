#pragma once

#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// Works out what the devices of one recording of another program did together, as merge_ranks() does for recordings of several ranks: a
/// collective of NCCL begins when the last device has reached it. Devices count from one moment, and nothing describes the collectives:
/// find_communicators() finds out which meet. Time in collectives that meet nothing is `quality.unmatched_ns`. Work is tagged as
/// tag_ranks() does if any collectives met. Nothing is changed if fewer than two devices run NCCL kernels, or if the work is tagged: that
/// trace has been through this function.
void join_devices(Trace& trace);

}  // namespace mptune::profiler
