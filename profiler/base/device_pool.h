#pragma once

#include <optional>
#include <string>
#include <vector>

#include "profiler/base/device_spec.h"

namespace mptune {

/// Cores, or a GPU, that a search divides into devices: "cpu:0-15/auto", "cuda:0/auto".
struct DevicePool {
  static constexpr int kMostDevices = 8;  ///< in one division
  static constexpr int kMostUnits = 16;   ///< more cores are divided in steps of several cores
  static constexpr int kMostParts = 4;    ///< equal parts of a GPU

  DeviceSpec whole;  ///< all of it as one device
  [[nodiscard]] std::string name() const { return whole.name + "/auto"; }
  bool operator==(const DevicePool&) const = default;
};

/// True if the name is meant to be a pool's: it ends in "/auto".
[[nodiscard]] bool names_pool(const std::string& name);
/// Parses "cpu:0-15/auto" or "cuda:0/auto". Throws Error for anything else, including a pool of a single core. Does not query the machine.
[[nodiscard]] DevicePool parse_pool(const std::string& name);
/// Does the same as parse_pool(), but returns nullopt for anything else.
[[nodiscard]] std::optional<DevicePool> find_pool(const std::string& name);

/// Returns every way to divide the pool into at most kMostDevices devices. Cores are divided into every set of sizes once, since only sizes
/// matter: the largest device comes first, from the first core on, and all cores are used. If there are more than kMostUnits cores, the
/// size of every device but the first is a multiple of cores / kMostUnits, rounded up. A GPU stays whole or is divided into 2 to kMostParts
/// equal parts.
[[nodiscard]] std::vector<std::vector<std::string>> divisions_of(const DevicePool& pool);
/// Returns the division into as many and as equal devices as there may be; a GPU stays whole. The baselines use it.
[[nodiscard]] std::vector<std::string> even_division(const DevicePool& pool);

/// Returns the numbers of cores for which layers are measured: the powers of two, and all `cores`.
[[nodiscard]] std::vector<int> measured_core_counts(int cores);
/// Returns the devices that are measured, which overlap: for each number of cores the first and the last ones of the pool; for a GPU, the
/// devices of all its divisions.
[[nodiscard]] std::vector<std::string> measured_devices(const DevicePool& pool);
/// Returns what else of the pool is kept busy while `device`, one of its first cores or parts, is measured: devices of its size, and one
/// device of the cores that are left over.
[[nodiscard]] std::vector<DeviceSpec> others_in_pool(const DevicePool& pool, const DeviceSpec& device);

/// Returns what else computes while `device` is measured with all other devices busy: its own pool is divided into devices of its size, the
/// other pools evenly, and of `devices` those that are in no pool follow.
[[nodiscard]] std::vector<DeviceSpec> devices_beside(const DeviceSpec& device, const std::vector<DevicePool>& pools,
                                                     const std::vector<DeviceSpec>& devices);

inline constexpr std::size_t kMostDivisions = 1000;
/// Returns every list of devices with one division of each pool, in the pools' order, followed by the `others`. Throws Error if there are
/// more than kMostDivisions lists.
[[nodiscard]] std::vector<std::vector<std::string>> divided(const std::vector<DevicePool>& pools, const std::vector<std::string>& others);

/// True if two devices share cores, or multiprocessors of a GPU.
[[nodiscard]] bool overlap(const DeviceSpec& a, const DeviceSpec& b);
/// True if the device is made of cores, or multiprocessors, of the pool.
[[nodiscard]] bool in_pool(const DeviceSpec& device, const DevicePool& pool);

}  // namespace mptune
