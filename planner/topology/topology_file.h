#pragma once

#include <string>

#include "planner/topology/topology.h"

namespace mptune::planner {

/// Reads a topology file, schema mptune.topology/1:
///
///     { "schema": "mptune.topology/1",
///       "hosts": [ { "name": "node", "count": 64, "devices": 8, "like": "cuda", "speed": 0.6, "memory": "80GiB",
///                    "link": { "bandwidth": "300GB/s", "latency": "5us" } } ],
///       "between_hosts": { "bandwidth": "25GB/s", "latency": "10us", "shared": "host" } }
///
/// `like`, `speed` and `memory` may be absent, as may `link` of hosts with one device and `between_hosts` of one host. Without it, `shared`
/// is "device", and `speed` is 1. Unknown keys are ignored, as in plan files. Throws Error that names the value: for a missing key, a wrong
/// type, a count below 1, more than Topology::kMostDevices devices, a speed outside 0.001 to 1000, a bandwidth outside 1 B/s to 1000 TB/s,
/// a latency above 60 s, a name with control characters, a name that two groups have, another version.
[[nodiscard]] Topology parse_topology(const std::string& text, const std::string& where);
/// Reads a topology file of at most 1 MiB. Throws Error as parse_topology() does, and where the file can't be read.
[[nodiscard]] Topology load_topology(const std::string& path);

}  // namespace mptune::planner
