#pragma once

#include "planner/topology/topology.h"

namespace mptune::testing {

/// Alike hosts: 300 GB/s within, 20 GB/s between.
inline planner::Topology make_topology(int hosts, int devices, bool shared = false) {
  planner::Topology topology;
  topology.groups.push_back({"node", hosts, devices, "", 0, {5e-6, 3e11}});
  topology.between = {1e-5, 2e10};
  topology.shared_per_host = shared;
  return topology;
}

}  // namespace mptune::testing
