#pragma once

#include <span>
#include <string>
#include <vector>

#include "planner/topology/topology.h"
#include "profiler/trace/values/profile.h"

namespace mptune::planner {

/// Returns the profile with these devices of the topology (indices among all) in place of its own, and the topology's links in place of its
/// own. Devices are named RANK@DEVICE, one rank a host: "3@cuda:0". Costs are those of the class that the topology names, measured alone;
/// times are divided by the speed of the hosts. Throws Error (`where` is put into it) where the profile has no class or device that a group
/// is like.
[[nodiscard]] Profile on_topology(const Profile& profile, const Topology& topology, std::span<const int> devices, const std::string& where);
/// Returns the profile with all devices of the topology.
[[nodiscard]] Profile on_topology(const Profile& profile, const Topology& topology, const std::string& where);

/// Returns the links between all devices.
[[nodiscard]] Network network_of(const Topology& topology);

/// Returns what a plan on paper rests on: "devices of node as fast as cpu:0 of the profile alone, links as topology.json says".
[[nodiscard]] std::string topology_assumption(const Profile& profile, const Topology& topology, const std::string& where);

}  // namespace mptune::planner
