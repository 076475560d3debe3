#pragma once

#include <string>

#include "mptune/planner/advise/advise.h"

namespace mptune {

/// "stage 3 is long: if it took as long as the mean of the stages, -15.2 %".
[[nodiscard]] std::string text_of(const Advice& advice);

}  // namespace mptune
