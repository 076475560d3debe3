#pragma once

#include <string>

#include "planner/plan/plan.h"
#include "planner/schedule/timing.h"
#include "profiler/base/index.h"

namespace mptune::testing {

/// A schedule as a picture: a row per device, a cell of three characters per nanosecond, the action's letter and micro-batch at its start,
/// '-' while it goes on, '.' while the device is idle. Where devices have several stages, those after the first have lower-case letters.
inline std::string draw(const Plan& plan, const planner::ScheduleCosts& costs) {
  constexpr std::size_t kCell = 3;
  const planner::ScheduleTiming timing = planner::time_schedule(plan, costs);
  const planner::Layout layout(plan);
  std::string picture;
  for (std::size_t d = 0; d < plan.actions.size(); ++d) {
    std::string row;
    for (std::int64_t t = 0; t < timing.end_ns; ++t) row += ".  ";
    for (std::size_t q = 0; q < plan.actions[d].size(); ++q) {
      const Action& action = plan.actions[d][q];
      const auto start = as_index(timing.start_ns[d][q]);
      const auto length = as_index(planner::duration_ns(costs.stages[as_index(action.stage)], action.kind));
      const bool later = action.stage != layout.units()[as_index(layout.on(static_cast<int>(d)).front())].stage;
      std::string text(1, static_cast<char>(later ? std::tolower(static_cast<char>(action.kind)) : static_cast<char>(action.kind)));
      text += std::to_string(action.microbatch);
      text.resize(kCell * length, ' ');
      for (std::size_t t = 1; t < length; ++t) text[kCell * t] = '-';
      row.replace(kCell * start, text.size(), text);
    }
    row.erase(row.find_last_not_of(" .") + 1);
    picture += row + "\n";
  }
  return picture;
}

}  // namespace mptune::testing
