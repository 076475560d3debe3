#pragma once

#include <string>
#include <vector>

#include "profiler/trace/values/communication.h"

namespace mptune::profiler {

/// Adds to every recording a communication for each NCCL kernel that no communication of its own belongs to. `described` is false.
/// Communications are ordered by the start of their calls, if these are known, else by the start of their kernels.
void add_undescribed(std::vector<RankRecording>& recordings);

/// Finds out which communications meet if recordings do not say their group: sets group, members, sequence and operation.
///
/// A stream that runs NCCL kernels is a communicator of its process. Streams of different recordings are one communicator if they run the
/// same operations in the same order, step by step, and their kernels end together though they begin apart:
///
///     rank 0, stream 20   | all-to-all ......... |  | all-gather ...... |
///     rank 1, stream 24          | all-to-all .. |          | all-gather|      one communicator
///     rank 2, stream 20     | all-to-all ............. |  | all-gather .. |    another one
///
/// - Kernels end together if none ends before all have begun, and their ends lie within kEndsTogether. Nine of ten must. For streams that
///   find no other stream this way, a quarter of the distance of the beginnings or a tenth of the shortest kernel is enough.
/// - Streams whose ends lie closest together are matched first.
/// - Clocks: as the files have them. If the ends do not fit then, the clocks that fit the ends best are used (fit_clock); to be believed,
///   the beginnings must vary by more than the ends. For streams that only send and receive, as far as names say, no clock is fitted to the
///   ends: ends in a pipeline lie at constant distances, too. They need the files' clocks, or clocks from the other communicators.
/// - If no stream of any recording is matched this way, each recording has only one stream, and their ends fit on some clocks, the streams
///   are one communicator of all processes; if they only send and receive, only between two processes.
/// - Messages whose names tell the ranks ("nccl:send 0->1") are left as they are if all recordings that send have their rank's number in
///   the group.
/// What is not found keeps an empty group: it meets nothing.
void find_communicators(std::vector<RankRecording>& recordings);

/// Ends of one collective on different processes may lie this far apart: the latency of a ring, and the differences between tracers of
/// several GPUs.
inline constexpr Nanoseconds kEndsTogether{30'000};

/// Returns the operation of an NCCL kernel in one form: "allreduce" for "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)" and for
/// "ncclAllReduceRingLLKernel_sum_f32(...)"; "sendrecv" for all that is made of sends and receives; "nccl" if the name does not say it.
[[nodiscard]] std::string operation_of_kernel(const std::string& name);

}  // namespace mptune::profiler
