#pragma once

#include <string>

#include "planner/advise/fit.h"
#include "reports/render/json.h"
#include "reports/render/style.h"

namespace mptune::reports {

/// Says what to do about a plan that does not fit, as the clauses of one line: "it fits with --microbatches 8 (512 ms a step, peaks 290
/// MiB,
/// 250 MiB), or with --recompute 0 (...)"; where nothing fits, what comes nearest, the caps that would do, and how many devices; where no
/// caps would do, how much is missing. Requires: the plan does not fit.
[[nodiscard]] std::string fit_remedy(const planner::FitAnswer& answer);

/// Renders the same as a table for a report, with changes beside the plan's own step; "" where the plan fits.
[[nodiscard]] std::string render_fit(const planner::FitAnswer& answer, double step_s, const TextStyle& style);

/// Returns {fits, excess_bytes, device, changes[], nearest, devices_needed}.
[[nodiscard]] planner::Json fit_json(const planner::FitAnswer& answer);

}  // namespace mptune::reports
