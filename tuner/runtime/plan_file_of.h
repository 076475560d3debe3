#pragma once

#include <chrono>

#include "planner/plan_file.h"
#include "profiler/model/model.h"

namespace mptune {

/// What save_plan_file needs to hand over `plan` of `model`: the plan with its modules, the fingerprint it is checked against, and when it
/// was made: std::chrono::system_clock::now() in a program. Requires: a plan of as many layers as the model has.
[[nodiscard]] PlanFile plan_file_of(const Model& model, const Plan& plan, std::chrono::system_clock::time_point created);

}  // namespace mptune
