#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "mptune/profiler/device/device.h"
#include "mptune/profiler/device/device_list.h"
#include "mptune/profiler/trace/profile.h"

namespace mptune {

/// Time of one copy, from handing it over until the receiver could use it.
struct CopyTime {
  std::int64_t bytes = 0;
  double seconds = 0;
};

/// Copies of `smallest_bytes`, of four times as many and so on up to `largest_bytes` over a lane, `repeats` of each; medians. Unless it is
/// given `largest_bytes` is 16 MiB, and 256 MiB between GPUs: 16 MiB take them less time than waking a thread. On a link throttled so far
/// that this would take long there are fewer repeats, and no copy above 1 MiB that takes longer than 0.1 s. Throws what copying throws
/// (see CopyLane).
[[nodiscard]] std::vector<CopyTime> sweep_link(const std::shared_ptr<Device>& source, const std::shared_ptr<Device>& destination,
                                               const LinkThrottle& throttle, int repeats, std::int64_t smallest_bytes = 4 << 10,
                                               std::int64_t largest_bytes = 0);

/// Latency and bandwidth: the line through the medians whose slope is the median of all pairs' slopes weighted to the large sizes
/// (Theil-Sen over sizes from 256 KiB), its start the median of what is left at the small ones. Requires: the times of a sweep.
[[nodiscard]] LinkCost fit_link(const std::vector<CopyTime>& times);

}  // namespace mptune
