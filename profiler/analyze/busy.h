#pragma once

#include <vector>

#include "profiler/trace/intervals.h"
#include "profiler/trace/trace.h"

namespace mptune::profiler {

/// What one device does over the whole trace, as disjoint ordered intervals. A peer copy counts on both of its devices.
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
