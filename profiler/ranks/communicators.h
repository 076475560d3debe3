#pragma once

#include <string>
#include <vector>

#include "profiler/trace/communication.h"

namespace mptune::profiler {

/// Adds to every recording a communication for each NCCL kernel that none of its own belongs to. `described` is false. Communications are
/// ordered by the start of their calls, where these are known, else by that of their kernels.
void add_undescribed(std::vector<RankRecording>& recordings);

/// Finds out which communications meet whose recordings do not say their group: sets group, members, sequence and operation.
///
/// A stream that runs NCCL kernels is a communicator of its process. Streams of different recordings are one communicator if they run the
/// same operations in the same order, step by step, and their kernels end together though they begin apart:
///
///     rank 0, stream 20   | all-to-all ......... |  | all-gather ...... |
///     rank 1, stream 24          | all-to-all .. |          | all-gather|      one communicator
///     rank 2, stream 20     | all-to-all ............. |  | all-gather .. |    another one
///
/// - Kernels end together if none ends before all have begun, and their ends lie within kEndsTogether. Nine of ten must. For streams that
///   find no other so, a quarter of the distance of the beginnings or a tenth of the shortest kernel will do.
/// - Those that end closest together find each other first.
/// - Clocks: as the files have them. If the ends do not fit then, as the ends fit best (fit_clock); to be believed, the beginnings must
///   vary by more than the ends. Of streams that only send and receive, as far as names say, ends fit no clock: those of a pipeline end
///   at constant distances, too. They need the files' clocks, or those that the other communicators give.
/// - Where no stream of any recording is found so, each has one only, and their ends fit on some clocks, these are one communicator of
///   all processes; of sends and receives only between two processes.
/// - Messages whose names tell the ranks ("nccl:send 0->1") are left as they are if all recordings that send have their rank's number in
///   the group.
/// What is not found keeps an empty group: it meets nothing.
void find_communicators(std::vector<RankRecording>& recordings);

/// Ends of one collective on different processes may lie so far apart: the latency of a ring, and what tracers of several GPUs differ by.
inline constexpr Nanoseconds kEndsTogether{30'000};

/// The operation of an NCCL kernel in one form: "allreduce" of "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)" and of
/// "ncclAllReduceRingLLKernel_sum_f32(...)"; "sendrecv" of all that is made of sends and receives; "nccl" where the name does not say it.
[[nodiscard]] std::string operation_of_kernel(const std::string& name);

}  // namespace mptune::profiler
