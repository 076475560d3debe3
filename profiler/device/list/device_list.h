#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/base/device_pool.h"
#include "profiler/base/device_spec.h"

namespace mptune {

/// Parses `--devices`: a comma-separated list of names; `sleep:K` (K >= 1) stands for the K devices sleep:0 .. sleep:K-1;
/// `auto` stands for all GPUs, or without GPUs for one device per core that this process may use, at most 8.
/// Throws Error for an empty list, a duplicate or unavailable core, a missing GPU or driver, a GPU divided in two different ways, sleeping
/// devices mixed with others, and a pool.
[[nodiscard]] std::vector<DeviceSpec> parse_devices(const std::string& list);
/// Does the same as parse_devices() for names from a plan file, where "sleep:3" is one device.
[[nodiscard]] std::vector<DeviceSpec> parse_device_names(const std::vector<std::string>& names);

/// What --devices names for a command that may divide pools.
struct DeviceChoice {
  std::vector<DeviceSpec> devices;  ///< in the list's order, pools evenly divided
  std::vector<DevicePool> pools;
};
/// Parses a list as parse_devices() does, but the list may also name pools: `cpu:0-15/auto`, `cuda:0/auto`. Throws Error as parse_devices()
/// does, and also for a device that shares cores or a GPU with a pool.
[[nodiscard]] DeviceChoice parse_device_choice(const std::string& list);

/// Throttle of copies between devices; bytes_per_second 0: not throttled.
struct LinkThrottle {
  double bytes_per_second = 0;
  double latency_s = 0;
  /// Returns the minimum time of a copy of `bytes` [s]; 0 if not throttled.
  [[nodiscard]] double seconds_for(std::int64_t bytes) const {
    return latency_s + (bytes_per_second > 0 ? static_cast<double>(bytes) / bytes_per_second : 0);
  }
  bool operator==(const LinkThrottle&) const = default;
};
/// Parses `12GB/s,10us`, `500MiB/s`; "" is not throttled. Throws Error.
[[nodiscard]] LinkThrottle parse_link(const std::string& text);

/// Parses `--memory`: one size for all devices or `DEV=SIZE,...`. Returns one cap per device in their order, 0: none. Throws Error.
[[nodiscard]] std::vector<std::int64_t> parse_memory(const std::string& text, const std::vector<DeviceSpec>& devices);

/// Returns the cores that this process may run on (its affinity mask), ascending.
[[nodiscard]] std::vector<int> available_cores();

}  // namespace mptune
