#pragma once

#include <string>

#include "reports/plan_report.h"
#include "reports/render/style.h"

namespace mptune::reports {

/// The layers as a bar, as wide as their times, split into stages; every second layer in a lighter shade, times in one unit.
///
///     stage  0                   |1                |2
///            ####==####===#####==|==####==###======|###==###
///     ms     120                 |110              |60.1
[[nodiscard]] std::string render_partition(const std::vector<PlannedLayer>& layers, const TextStyle& style);

/// All of `plan`: the plan and its proof, partition, timeline, memory, what limits, the next best, time against memory, what was rejected
/// and what cannot be executed.
[[nodiscard]] std::string render_plan(const PlanReport& report, const TextStyle& style);

}  // namespace mptune::reports
