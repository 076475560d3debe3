#pragma once

#include <string>
#include <vector>

#include "mptune/planner/plan.h"

namespace mptune {

/// What differs from plan `a` to plan `b`, a clause each: "schedule: gpipe -> 1f1b", "stage 1: layers 4 to 7 -> 5 to 7". Empty: nothing.
[[nodiscard]] std::vector<std::string> plan_changes(const Plan& a, const Plan& b);

}  // namespace mptune
