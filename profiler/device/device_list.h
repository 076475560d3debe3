#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mptune/profiler/base/device_spec.h"

namespace mptune {

/// Parses `--devices`: a comma-separated list of names; `sleep:K` (K >= 1) stands for the K devices sleep:0 .. sleep:K-1;
/// `auto` is all GPUs, else one device per core this process may use, at most 8. Throws Error for an empty list, a core twice or not on
/// this machine, a GPU that is not there or is divided in two ways, a mixture with sleep devices, a CUDA device where no driver is.
[[nodiscard]] std::vector<DeviceSpec> parse_devices(const std::string& list);
/// The same for names that come from a plan file ("sleep:3" is one device).
[[nodiscard]] std::vector<DeviceSpec> parse_device_names(const std::vector<std::string>& names);

/// How copies between devices are slowed down; bytes_per_second 0: not throttled.
struct LinkThrottle {
  double bytes_per_second = 0;
  double latency_s = 0;
  /// Seconds that a copy of `bytes` takes at least; 0 where nothing is throttled.
  [[nodiscard]] double seconds_for(std::int64_t bytes) const {
    return latency_s + (bytes_per_second > 0 ? static_cast<double>(bytes) / bytes_per_second : 0);
  }
  bool operator==(const LinkThrottle&) const = default;
};
/// Parses `12GB/s,10us`, `500MiB/s`; "" is not throttled. Throws Error.
[[nodiscard]] LinkThrottle parse_link(const std::string& text);

/// Parses `2GiB`, `512MB`, `1000` (bytes). Throws Error for nonsense, zero, negative or more than 2^60; `option` names what the user typed
/// it for.
[[nodiscard]] std::int64_t parse_bytes(const std::string& text, const std::string& option);
/// Parses `150s`, `5min`, `1.5h`, `200ms`; a bare number is seconds. Throws Error.
[[nodiscard]] double parse_seconds(const std::string& text, const std::string& option);
/// Parses `--memory`: one size for all devices or `DEV=SIZE,...`; one cap per device in their order, 0: none. Throws Error.
[[nodiscard]] std::vector<std::int64_t> parse_memory(const std::string& text, const std::vector<DeviceSpec>& devices);

/// Cores this process may run on (its affinity mask), ascending.
[[nodiscard]] std::vector<int> available_cores();

}  // namespace mptune
