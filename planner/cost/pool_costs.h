#pragma once

#include <string>
#include <vector>

#include "profiler/base/device_pool.h"
#include "profiler/trace/values/profile.h"

namespace mptune::planner {

/// Returns the pools that the profile was measured for; its fingerprint names them.
[[nodiscard]] std::vector<DevicePool> pools_of(const Profile& profile);

/// Returns the profile with the devices of every division of its pools; a profile without pools stays as it is.
/// - Times on a number of cores that was not measured are interpolated between the next smaller and the next larger measured number,
///   linearly in 1 / cores. This is exact where a part of a layer's time does not depend on the cores and the rest is shared by them
///   evenly.
///   Where only the smaller number was measured busy, the slow-down is that of the smaller one.
/// - Saved activations and workspaces are the larger ones of the two measured numbers of cores; other bytes, which do not depend on the
///   cores, are those of the smaller number.
/// - A cap is that of the pool as one device.
/// - A link costs what it does between measured devices of the next smaller numbers of cores, wherever in the pool they lie.
/// The profile does not show memory that is nearer to some cores than to others, or cores that differ.
[[nodiscard]] Profile with_pool_devices(Profile profile);

/// Returns the numbers of cores among these devices whose costs are interpolated, ascending. Requires: a profile by with_pool_devices().
[[nodiscard]] std::vector<int> interpolated_cores(const Profile& profile, const std::vector<std::string>& devices);

}  // namespace mptune::planner
