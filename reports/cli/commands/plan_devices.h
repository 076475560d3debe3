#pragma once

#include <string>
#include <vector>

#include "planner/search/space/search_space.h"
#include "reports/cli/commands/plan_input.h"
#include "reports/cli/options/plan_choice.h"

namespace mptune::reports {

/// Returns what the options of `plan` leave open of a profile's devices and pools. `devices` and `memory` are as typed; where there is no
/// cap, the profile's cap holds. Gives the profile all caps. Throws Error for devices and pools that it does not know, and for devices that
/// overlap.
[[nodiscard]] SearchSpace chosen_space(const PlanChoice& choice, const std::string& devices, const std::string& memory, int batch,
                                       PlanInput& input);

/// Returns the names of the pools: "cpu:0-15/auto, cuda:0/auto".
[[nodiscard]] std::string names_of(const std::vector<DevicePool>& pools);

}  // namespace mptune::reports
