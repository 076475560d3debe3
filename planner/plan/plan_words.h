#pragma once

#include <string>

#include "planner/plan/plan.h"

namespace mptune {

/// Returns the plan in words, for reports: "one device", "data parallel over 2 devices", "pipeline of 2 stages, 1f1b, 8 micro-batches of
/// 4".
[[nodiscard]] std::string describe(const Plan& plan);

}  // namespace mptune
