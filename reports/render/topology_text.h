#pragma once

#include <string>

#include "planner/plan/file/plan_json.h"
#include "reports/render/style.h"
#include "reports/values/topology_report.h"

namespace mptune::reports {

/// Renders the plan, its step and bound, its stages, what the sum of the largest stage's gradients costs, and notes.
///
///     predicted step 778 ms; lower bound of plans of equal replicas and equal micro-batches, 1f1b or gpipe 776 ms (gap 0.3 %)
///     512 of 512 devices used, busy 50.2 % of the step
///
///     stage  layers        busy    params      peak  devices
///     -----  ----------  ------  --------  --------  -------------------------
///         0  0 to 21     439 ms   336 MiB  35.2 GiB  0@cuda:0 .. 3@cuda:7 (32)
///
///     gradients of stage 0, 336 MiB over 32 replicas on 4 hosts: ring 27.9 ms, tree 23.3 ms (used), hierarchical 23.3 ms
[[nodiscard]] std::string render_topology_report(const TopologyReport& report, const TextStyle& style);

/// Returns the key `topology` of results: hosts, devices, and the sum of the largest stage's gradients, null without replicas.
[[nodiscard]] planner::Json topology_json(const TopologyReport& report);

}  // namespace mptune::reports
