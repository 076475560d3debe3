#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/trace/values/profile.h"
#include "reports/cli/program/session.h"

namespace mptune::reports {

/// Splits a placement graph (JSON of dnn-partitioning) over its devices by the largest load, and shows the parts. `stages` and `memory`
/// ("" where not given) replace the number of devices and their cap. Throws Error, infeasible where nothing fits.
int plan_placement(const std::string& path, const std::string& stages, const std::string& memory, const Session& session);

/// A profiled model and the equal devices to split it over.
struct ProfilePlacement {
  Profile profile;
  std::vector<std::string> devices;        ///< names that the profile knows
  std::vector<std::int64_t> memory_bytes;  ///< cap of each; 0: none. The smallest cap holds for all
  int samples = 1;                         ///< samples of the micro-batch whose load is split
  std::vector<std::string> assumed;        ///< to be shown below the parts
};

/// Does the same for layers: a part runs forward and backward of its layers. Throws Error, also for devices of different classes.
int plan_profile_placement(const ProfilePlacement& given, const Session& session);

}  // namespace mptune::reports
