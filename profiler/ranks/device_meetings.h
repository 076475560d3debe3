#pragma once

#include "profiler/trace/trace.h"

namespace mptune::profiler {

/// What the devices of one recording of another program did together, as merge_ranks() does it for recordings of several ranks: a
/// collective of NCCL begins when the last device has come to it. Devices count from one moment, and nothing describes the collectives:
/// find_communicators() finds out which meet. Time in those that meet nothing is `quality.unmatched_ns`. Work is tagged as tag_ranks()
/// does where any met. Nothing is changed where fewer than two devices run NCCL kernels, or where the work is tagged: such a trace has been
/// through this.
void join_devices(Trace& trace);

}  // namespace mptune::profiler
