#pragma once

#include <random>

#include "mptune/profiler/trace/trace.h"

namespace mptune::testing {

/// Two CPU devices, one step of two stages and two micro-batches with copies both ways, waits, host work, a memset,
/// ranges, launches, edges, memory samples: something in every table. The first event starts at 0.
/// One step of 100 ns: device 0 computes 49, copies 5, overlaps 6, idles 40; device 1 computes 50, copies 11, idles 39.
[[nodiscard]] Trace hand_trace();

/// A recording of two GPUs: kernels as launched on several streams, one recorded but shown by no event, a peer copy and copies to and from
/// the host, a memset, a wait, calls that started nothing, calls without a name, the recorder's own work, loss of every kind. The rows of
/// `kernels` lie in another order than their events.
[[nodiscard]] Trace gpu_trace();

/// `count` events on `devices` devices at random times, some copies, some of no length; leaves of one lane never
/// overlap. Steps cut the time into three windows with gaps.
[[nodiscard]] Trace random_trace(std::mt19937& random, int devices, int count);

}  // namespace mptune::testing
