#pragma once

#include <string>

#include "planner/advise/fit.h"
#include "reports/render/json.h"
#include "reports/render/style.h"

namespace mptune::reports {

/// What to do about a plan that does not fit, as the clauses of one line: "it fits with --microbatches 8 (512 ms a step, peaks 290 MiB,
/// 250 MiB), or with --recompute 0 (...)"; where nothing fits, what comes nearest, the caps that would do, and how many devices; without
/// such caps, how much is missing. Requires: the plan does not fit.
[[nodiscard]] std::string fit_remedy(const planner::FitAnswer& answer);

/// The same as a table for a report, changes beside the plan's own step; "" where the plan fits.
[[nodiscard]] std::string render_fit(const planner::FitAnswer& answer, double step_s, const TextStyle& style);

/// {fits, excess_bytes, device, changes[], nearest, devices_needed}.
[[nodiscard]] planner::Json fit_json(const planner::FitAnswer& answer);

}  // namespace mptune::reports
