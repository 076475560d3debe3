#pragma once

#include <string>
#include <vector>

#include "planner/simulate/simulate.h"
#include "profiler/base/runtime.h"
#include "reports/render/json.h"
#include "reports/values/report.h"

namespace mptune::reports {

/// Returns the part of the JSON that every `simulate` of a trace's devices has. `modules`: see plan_to_json(); `path`: of the predicted
/// trace, "" where none is written. Requires: report.bubble_theory.
[[nodiscard]] planner::Json simulated_json(const Plan& plan, const std::vector<std::vector<std::string>>& modules,
                                           const Prediction& prediction, const TraceReport& report, Runtime runtime,
                                           const std::string& path);

}  // namespace mptune::reports
