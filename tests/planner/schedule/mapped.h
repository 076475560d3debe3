#pragma once

#include <string>
#include <vector>

#include "planner/schedule/schedule.h"
#include "planner/schedule/schedule_info.h"
#include "profiler/base/index.h"

namespace mptune::testing {

/// A plan whose stages have the devices that the schedule asks for, one layer each; scheduled with the textbook's costs.
inline Plan mapped(const std::string& name, int devices, int virtual_stages, int m) {
  Plan plan;
  plan.microbatch_sizes.assign(as_index(m), 1);
  for (int d = 0; d < devices; ++d) plan.devices.push_back("sleep:" + std::to_string(d));
  const std::vector<int> of = planner::stage_devices(name, devices, virtual_stages);
  for (int s = 0; s < static_cast<int>(of.size()); ++s) plan.stages.push_back({s, s + 1, {of[as_index(s)]}, {}});
  planner::make_schedule(plan, name);
  return plan;
}

/// Stages that each fits: two in a V, else `virtual_stages`, else one.
inline int stages_per_device(const std::string& name, int virtual_stages) {
  for (const std::string in_a_v : {"zbv", "v-half", "v-min", "dualpipe-v"})
    if (name == in_a_v) return 2;
  for (const std::string one : {"1f1b", "eager-1f1b", "zb1p", "zb2p"})
    if (name == one) return 1;
  return virtual_stages;
}

}  // namespace mptune::testing
