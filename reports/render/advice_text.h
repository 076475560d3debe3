#pragma once

#include <string>
#include <vector>

#include "planner/advise/advise.h"

namespace mptune::reports {

/// Returns the change to name where there is room for one: the largest that the command line alone can make, since its worth is that of a
/// plan and not of a trouble that would have to go; else the largest. Null where there is none. `advice` is largest first.
[[nodiscard]] const planner::Advice* best_change(const std::vector<planner::Advice>& advice);

/// Says what to do, in options of the command line or settings of the machine, and how its worth is known:
/// "--cuts 4,9: layer3 moves to stage 1 (simulated)".
[[nodiscard]] std::string action_of(const planner::Advice& advice);

/// Says the same with its worth: "--microbatches 8 instead of 4 (simulated): saves 40.0 ms, 10.0 % of the step".
[[nodiscard]] std::string text_of(const planner::Advice& advice);

/// Says what shrinks idle time of a cause (a name of kIdleCauses), if no change was priced for it, or its price is that of the cause.
[[nodiscard]] std::string remedy_of_cause(const std::string& cause);

}  // namespace mptune::reports
