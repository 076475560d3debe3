#pragma once

#include <random>

#include "profiler/trace/values/trace.h"

namespace mptune::testing {

/// A trace with something in every table: two CPU devices, one step of two stages and two micro-batches, copies in both directions, waits,
/// host work, a memset, ranges, launches, edges, memory samples. The first event starts at 0.
/// The step takes 100 ns: device 0 computes 49, copies 5, overlaps 6, idles 40; device 1 computes 50, copies 11, idles 39.
[[nodiscard]] Trace hand_trace();

/// A recording of two GPUs: kernels on several streams, a recorded kernel without an event, a peer copy, copies to and from the host, a
/// memset, a wait, calls that launched nothing, calls without a name, the recorder's own work, losses of every kind.
/// `kernels` and their events are ordered differently.
[[nodiscard]] Trace gpu_trace();

/// `count` events on `devices` devices at random times: some are copies, some have no length. Events of one lane never overlap.
/// Three steps with gaps between them.
[[nodiscard]] Trace random_trace(std::mt19937& random, int devices, int count);

}  // namespace mptune::testing
