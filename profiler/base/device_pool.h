#pragma once

#include <optional>
#include <string>
#include <vector>

#include "profiler/base/device_spec.h"

namespace mptune {

/// Cores, or a GPU, that a search divides into devices: "cpu:0-15/auto", "cuda:0/auto".
struct DevicePool {
  static constexpr int kMostDevices = 8;  ///< of a division
  static constexpr int kMostUnits = 16;   ///< more cores are divided in steps of several cores
  static constexpr int kMostParts = 4;    ///< of a GPU

  DeviceSpec whole;  ///< all of it as one device
  [[nodiscard]] std::string name() const { return whole.name + "/auto"; }
  bool operator==(const DevicePool&) const = default;
};

/// True if the name is meant to be a pool's: it ends in "/auto".
[[nodiscard]] bool names_pool(const std::string& name);
/// Parses "cpu:0-15/auto", "cuda:0/auto". Throws Error for anything else, a single core too. Does not ask the machine.
[[nodiscard]] DevicePool parse_pool(const std::string& name);
/// The same; nothing for anything else.
[[nodiscard]] std::optional<DevicePool> find_pool(const std::string& name);

/// Every way to divide the pool into at most kMostDevices devices. Of cores: every set of sizes once, since only sizes matter, the largest
/// device first, from the first core on; all cores are used. Of more than kMostUnits cores, all devices but the first have a multiple of
/// cores / kMostUnits, rounded up. A GPU: whole, and 2 to kMostParts equal parts.
[[nodiscard]] std::vector<std::vector<std::string>> divisions_of(const DevicePool& pool);
/// The division into as many and as equal devices as there may be; a GPU stays whole. Baselines use it.
[[nodiscard]] std::vector<std::string> even_division(const DevicePool& pool);

/// Numbers of cores of which layers are measured: powers of two, and all.
[[nodiscard]] std::vector<int> measured_core_counts(int cores);
/// Devices that are measured: of each number of cores the first and the last of the pool; of a GPU those of all divisions. They overlap.
[[nodiscard]] std::vector<std::string> measured_devices(const DevicePool& pool);
/// What else of the pool computes while `device`, one of its first cores or parts, is measured busy: devices of its size, and the rest.
[[nodiscard]] std::vector<DeviceSpec> others_in_pool(const DevicePool& pool, const DeviceSpec& device);

inline constexpr std::size_t kMostDivisions = 1000;
/// Every list of devices with one division of each pool, in the pools' order, and behind them the `others`. Throws Error for more than
/// kMostDivisions lists.
[[nodiscard]] std::vector<std::vector<std::string>> divided(const std::vector<DevicePool>& pools, const std::vector<std::string>& others);

/// True if two devices share cores, or multiprocessors of a GPU.
[[nodiscard]] bool overlap(const DeviceSpec& a, const DeviceSpec& b);
/// True if the device is made of cores, or multiprocessors, of the pool.
[[nodiscard]] bool in_pool(const DeviceSpec& device, const DevicePool& pool);

}  // namespace mptune
