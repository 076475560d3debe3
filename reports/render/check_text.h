#pragma once

#include <string>

#include "mptune/planner/plan_json.h"
#include "mptune/reports/render/style.h"
#include "mptune/tuner/trial/check.h"

namespace mptune {

/// What a check found: per comparison how many tensors agree and how far, then the verdict; for a difference where and what to do.
[[nodiscard]] std::string render_check(const CheckResult& result, const std::string& model, const TextStyle& style);

/// Everything of `check` but its schema: `agrees`, `first_difference` (null: none), `samples`, `microbatch_sizes`, `parts[]`.
[[nodiscard]] Json check_json(const CheckResult& result);

}  // namespace mptune
