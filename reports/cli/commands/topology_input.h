#pragma once

#include <string>
#include <vector>

#include "planner/topology/topology.h"
#include "profiler/trace/values/profile.h"

namespace mptune::reports {

/// A profile, and the machines on paper that stand for its devices.
struct TopologyInput {
  planner::Topology topology;
  Profile profile;                   ///< as measured
  Profile on_paper;                  ///< with all devices of the topology
  std::vector<std::string> assumed;  ///< clauses to be said in reports
};

/// Reads both files; `memory` is the cap of every device as typed, "": as the topology says. `encoder_layers`: as typed, for a public
/// profile. Throws Error where the readers do, and for files that were given in each other's place.
[[nodiscard]] TopologyInput read_on_topology(const std::string& profile, const std::string& topology, const std::string& memory,
                                             const std::string& encoder_layers);

}  // namespace mptune::reports
