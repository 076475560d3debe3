#pragma once

#include <string>
#include <vector>

#include "planner/plan/plan.h"

namespace mptune::reports {

/// Returns the devices of each stage: "cpu:0 cpu:1".
[[nodiscard]] std::vector<std::string> stage_devices_text(const Plan& plan);
/// Returns a table with a row per stage: devices, layers, recomputation, modules where they are known.
[[nodiscard]] std::string stage_table(const Plan& plan, const std::vector<std::vector<std::string>>& modules);

}  // namespace mptune::reports
