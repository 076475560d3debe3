#pragma once

#include <string>

#include "planner/plan_json.h"
#include "reports/render/style.h"
#include "reports/topology_report.h"

namespace mptune::reports {

/// The plan, its step and bound, its stages, what the sum of the largest stage's gradients costs, notes.
///
///     predicted step 58.1 ms; lower bound of uniform plans 57.9 ms (gap 0.3 %)
///
///     stage  devices                        layers    busy  parameters     peak
///     -----  ---------------------------  --------  ------  ----------  -------
///         0  0@cuda:0 .. 63@cuda:0 (64)    0 to 11  49.0 ms    120 MiB  3.1 GiB
///
///     gradients of stage 0 (120 MiB over 64 replicas on 64 hosts): ring 21.0 ms, tree 20.1 ms (used)
[[nodiscard]] std::string render_topology_report(const TopologyReport& report, const TextStyle& style);

/// The key `topology` of results: hosts, devices, and the sum of the largest stage's gradients, null without replicas.
[[nodiscard]] planner::Json topology_json(const TopologyReport& report);

}  // namespace mptune::reports
