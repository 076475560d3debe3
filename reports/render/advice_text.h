#pragma once

#include <string>

#include "planner/advise/advise.h"

namespace mptune::reports {

/// What to do, in options of the command line or settings of the machine, and how its worth is known:
/// "--cuts 4,9: layer3 moves to stage 1 (simulated)".
[[nodiscard]] std::string action_of(const planner::Advice& advice);

/// True if the command line alone can make the change: its worth is that of a plan, not of a trouble that would have to go.
[[nodiscard]] bool is_option(const planner::Advice& advice);

/// The same with its worth: "--microbatches 8 instead of 4 (simulated): saves 40.0 ms, 10.0 % of the step".
[[nodiscard]] std::string text_of(const planner::Advice& advice);

/// What shrinks idle time of a cause (a name of kIdleCauses) for which no change was priced, or whose price it is.
[[nodiscard]] std::string remedy_of_cause(const std::string& cause);

}  // namespace mptune::reports
