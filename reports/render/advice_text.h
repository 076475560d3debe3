#pragma once

#include <string>

#include "planner/advise/advise.h"

namespace mptune::reports {

/// "stage 3 is long: if it took as long as the mean of the stages, -15.2 %".
[[nodiscard]] std::string text_of(const planner::Advice& advice);

}  // namespace mptune::reports
