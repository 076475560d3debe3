#include "planner/plan/offload.h"

#include <algorithm>
#include <map>
#include <utility>

#include "profiler/base/index.h"

namespace mptune::planner {

std::vector<Offloaded> offloaded(const Plan& plan, int device) {
  std::map<std::pair<int, int>, Offloaded> open;  // by stage and micro-batch
  std::vector<Offloaded> all;
  const std::vector<Action>& row = plan.actions[as_index(device)];
  for (std::size_t at = 0; at < row.size(); ++at) {
    const Action& action = row[at];
    if (!plan.stages[as_index(action.stage)].offload || action.kind == ActionKind::backward_weight) continue;
    const std::pair key(action.stage, action.microbatch);
    if (action.kind == ActionKind::forward) {
      open[key] = {action.stage, action.microbatch, static_cast<int>(at), 0};
      continue;
    }
    Offloaded ended = open.at(key);
    ended.backward = static_cast<int>(at);
    if (ended.freed() < ended.fetched()) all.push_back(ended);
  }
  std::ranges::sort(all, {}, &Offloaded::forward);
  return all;
}

bool offloads(const Plan& plan) {
  return std::ranges::any_of(plan.stages, &Stage::offload);
}

}  // namespace mptune::planner
