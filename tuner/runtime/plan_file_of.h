#pragma once

#include <chrono>

#include "planner/plan/file/plan_file.h"
#include "profiler/model/layers/model.h"

namespace mptune {

/// Returns the content for save_plan_file: `plan` with the module names and the fingerprint of `model`. A program passes
/// std::chrono::system_clock::now() as `created`. Requires: the plan has as many layers as the model.
[[nodiscard]] PlanFile plan_file_of(const Model& model, const Plan& plan, std::chrono::system_clock::time_point created);

}  // namespace mptune
