#pragma once

#include <string>

#include "reports/render/style.h"
#include "reports/render/unmeasured.h"
#include "reports/values/plan_report.h"

namespace mptune::reports {

/// Draws the layers as a bar, as wide as their times, split into stages; every second layer in a lighter shade, times in one unit.
///
///     stage  0                   |1                |2
///            ####==####===#####==|==####==###======|###==###
///     ms     120                 |110              |60.1
[[nodiscard]] std::string render_partition(const std::vector<PlannedLayer>& layers, const TextStyle& style);

/// Renders all of `plan`: the plan, its proof and what to do with it, then partition, timeline, memory, what limits, the next best, time
/// against memory, how it was searched, and with Listing::all what was rejected and what cannot be executed. The text ends with the last
/// line of what to do with the plan.
[[nodiscard]] std::string render_plan(const PlanReport& report, const TextStyle& style, Listing listing = Listing::few);

}  // namespace mptune::reports
