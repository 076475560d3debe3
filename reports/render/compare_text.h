#pragma once

#include <string>

#include "reports/comparison.h"
#include "reports/render/json.h"
#include "reports/render/style.h"

namespace mptune::reports {

/// The verdict and why, both sides, what changed most, what differs between the plans, then a table per device (the 8 that changed most).
///
///     SLOW: B takes 1.34 times as long as A, 95 % [1.31, 1.37]
[[nodiscard]] std::string render_compared(const Comparison& comparison, const TextStyle& style);

/// "stage:0/0: straggler idle +22.1 s, +12.0 % of the step".
[[nodiscard]] std::string sentence(const LargestChange& change);

/// Everything of `compare` but its schema.
[[nodiscard]] planner::Json comparison_json(const Comparison& comparison);

}  // namespace mptune::reports
