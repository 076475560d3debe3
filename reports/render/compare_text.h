#pragma once

#include <string>

#include "reports/render/json.h"
#include "reports/render/style.h"
#include "reports/values/comparison.h"

namespace mptune::reports {

/// Renders the verdict and why, what is not alike, both sides, what changed most, what differs between the plans, what was not measured,
/// then a table of all devices together and one per device (the 8 that changed most).
///
///     SLOW: B takes 1.34 times as long as A, 95 % [1.31, 1.37]
[[nodiscard]] std::string render_compared(const Comparison& comparison, const TextStyle& style);

/// Renders the same for a comment on a pull request, with long parts folded.
///
///     **SLOW**: B takes 1.34 times as long as A, 95 % [1.31, 1.37]
[[nodiscard]] std::string render_compared_markdown(const Comparison& comparison);

/// Returns everything of `compare` but its schema.
[[nodiscard]] planner::Json comparison_json(const Comparison& comparison);

}  // namespace mptune::reports
