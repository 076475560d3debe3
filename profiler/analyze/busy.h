#pragma once

#include <vector>

#include "profiler/trace/intervals.h"
#include "profiler/trace/trace.h"

namespace mptune::profiler {

/// Whether an event is a kernel of NCCL: a collective, a send or a receive.
[[nodiscard]] bool is_collective_of_nccl(const Trace& trace, const Event& event);

/// The only device of a trace that runs kernels of NCCL; -1: none does, or several do. In the file of one rank nothing says when the other
/// ranks came to them, so how much of their time is waiting, and how much transfer, is not known.
[[nodiscard]] int lone_communicator(const Trace& trace);

/// What one device does over the whole trace, as disjoint ordered intervals. A peer copy counts on both of its devices. Collectives are
/// compute: they begin when all have come to them. NCCL's of a lone communicator are communication, as copies are.
struct Busy {
  std::vector<TimeInterval> compute;
  std::vector<TimeInterval> copy;
  std::vector<TimeInterval> overlap;
};

/// One per device. Requires: device and detail of every event in range (throws std::out_of_range).
[[nodiscard]] std::vector<Busy> busy_times(const Trace& trace);

/// The parts of `window` that no interval of either list covers.
[[nodiscard]] std::vector<TimeInterval> idle_within(const Busy& busy, TimeInterval window);

}  // namespace mptune::profiler
