#pragma once

#include <cstdint>
#include <vector>

#include "profiler/trace/values/intervals.h"

namespace mptune::profiler {

/// Work of a process on one device.
struct ProcessWork {
  std::int64_t process = 0;
  TimeInterval time;
};
/// Returns how much of the work overlaps work of another process. O(n log n) for each process.
[[nodiscard]] std::int64_t overlapping_between_processes(const std::vector<ProcessWork>& works);

}  // namespace mptune::profiler
