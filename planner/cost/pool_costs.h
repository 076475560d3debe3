#pragma once

#include <string>
#include <vector>

#include "profiler/base/device_pool.h"
#include "profiler/trace/profile.h"

namespace mptune::planner {

/// The pools that the profile was measured for: its fingerprint names them.
[[nodiscard]] std::vector<DevicePool> pools_of(const Profile& profile);

/// The profile with the devices of every division of its pools; one without pools as it is.
/// - Times on a number of cores that was not measured are interpolated between the next smaller and the next larger number that were,
///   linearly in 1 / cores: exact where a part of a layer's time does not depend on the cores and the rest is shared by them evenly.
///   Where only the smaller number was measured busy, the slow-down is that of the smaller one.
/// - Bytes are those of the measured number with more of them.
/// - A cap is that of the pool as one device.
/// - A link costs what it does between measured devices of the next smaller numbers of cores, wherever in the pool they lie.
/// It cannot see: memory that is nearer to some cores than to others, cores that differ.
[[nodiscard]] Profile with_pool_devices(Profile profile);

/// Numbers of cores among these devices whose costs are interpolated, ascending. Requires: a profile by with_pool_devices().
[[nodiscard]] std::vector<int> interpolated_cores(const Profile& profile, const std::vector<std::string>& devices);

}  // namespace mptune::planner
