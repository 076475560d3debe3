#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "profiler/device/device.h"
#include "profiler/device/list/device_list.h"
#include "profiler/trace/values/profile.h"

namespace mptune::profiler {

/// Time of one copy, from sending it until the receiver, which has waited for it, goes on.
struct CopyTime {
  std::int64_t bytes = 0;
  double seconds = 0;
};

/// Returns median times of copies of `smallest_bytes`, four times as many, and so on up to `largest_bytes`, `repeats` of each size.
/// `largest_bytes` 0 means 16 MiB, and 256 MiB between GPUs, which copy 16 MiB faster than a thread wakes up. On slow throttled links there
/// are fewer repeats, and no copies above 1 MiB that take longer than 0.1 s. Ends before a size that a device has no memory for, but has at
/// least two sizes. Throws what copying throws (see CopyLane).
[[nodiscard]] std::vector<CopyTime> sweep_link(const std::shared_ptr<Device>& source, const std::shared_ptr<Device>& destination,
                                               const LinkThrottle& throttle, int repeats, std::int64_t smallest_bytes = 4 << 10,
                                               std::int64_t largest_bytes = 0);

/// Returns the time that each further one of several small tensors takes when they are copied one after another [s], as replicas' gradients
/// are: the median of some repeats. Throws what copying throws.
[[nodiscard]] double time_of_further_tensor(const std::shared_ptr<Device>& source, const std::shared_ptr<Device>& destination);

/// Fits latency and bandwidth. The slope is the median slope of all pairs of sizes from 256 KiB on (of the largest two, where they are
/// smaller), weighted to large sizes (Theil-Sen). The latency is the median remainder at the smaller sizes. Requires: the times of a sweep.
[[nodiscard]] LinkCost fit_link(const std::vector<CopyTime>& times);

}  // namespace mptune::profiler
