#pragma once

#include <vector>

#include "profiler/trace/values/intervals.h"
#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// True if an event is a kernel of NCCL: a collective, a send or a receive.
[[nodiscard]] bool is_collective_of_nccl(const Trace& trace, const Event& event);

/// Returns the only device of a trace that runs kernels of NCCL; -1 if none does or several do. In the file of one rank nothing says when
/// the other ranks reached these kernels, so how much of their time is waiting, and how much is transfer, is not known.
[[nodiscard]] int lone_communicator(const Trace& trace);

/// What one device does over the whole trace, as disjoint ordered intervals. A peer copy counts on both of its devices. Collectives are
/// compute: they begin when all members have reached them. NCCL's kernels on a lone communicator are communication, as copies are.
struct Busy {
  std::vector<TimeInterval> compute;
  std::vector<TimeInterval> copy;
  std::vector<TimeInterval> overlap;
};

/// Returns one Busy per device. Requires: device and detail of every event in range (throws std::out_of_range).
[[nodiscard]] std::vector<Busy> busy_times(const Trace& trace);

/// Returns the parts of `window` that no interval of either list covers.
[[nodiscard]] std::vector<TimeInterval> idle_within(const Busy& busy, TimeInterval window);

}  // namespace mptune::profiler
