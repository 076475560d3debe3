#pragma once

#include <string>
#include <vector>

#include "planner/plan/plan.h"

namespace mptune::reports {

/// Returns what differs from plan `a` to plan `b`, a clause each: "schedule: gpipe -> 1f1b", "cuts: 4 -> 5, 9 -> 8" (those that moved, as
/// `--cuts` counts layers). Empty where nothing differs.
[[nodiscard]] std::vector<std::string> plan_changes(const Plan& a, const Plan& b);

/// Returns "3-8, 12" for 3, 4, 5, 6, 7, 8, 12.
[[nodiscard]] std::string in_ranges(const std::vector<int>& ascending);

}  // namespace mptune::reports
