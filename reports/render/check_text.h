#pragma once

#include <string>

#include "planner/plan/file/plan_json.h"
#include "reports/render/style.h"
#include "tuner/trial/check_result.h"

namespace mptune::reports {

/// Renders what a check found: per comparison how many tensors agree and how closely, then the verdict; for a difference, where it is and
/// what to do.
[[nodiscard]] std::string render_check(const tuner::CheckResult& result, const std::string& model, const TextStyle& style);

/// Returns everything of `check` but its schema: `agrees`, `first_difference` (null: none), `samples`, `microbatch_sizes`, `parts[]`.
[[nodiscard]] planner::Json check_json(const tuner::CheckResult& result);

}  // namespace mptune::reports
