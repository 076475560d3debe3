#include "mptune/planner/executable.h"

#include <algorithm>

namespace mptune {
namespace {

bool has_several_stages_on_a_device(const Plan& plan) {
  std::vector<int> stages(plan.devices.size(), 0);
  for (const Stage& stage : plan.stages) {
    for (const int device : stage.devices) ++stages[static_cast<std::size_t>(device)];
  }
  return std::ranges::any_of(stages, [](int count) { return count > 1; });
}

bool splits_backward(const Plan& plan) {
  return std::ranges::any_of(plan.actions, [](const std::vector<Action>& row) {
    return std::ranges::any_of(
        row, [](const Action& action) { return action.kind == ActionKind::backward_input || action.kind == ActionKind::backward_weight; });
  });
}

bool recomputes_as(const Plan& plan, Recompute::Mode mode) {
  return std::ranges::any_of(plan.stages, [mode](const Stage& stage) { return stage.recompute.mode == mode; });
}

}  // namespace

std::string why_not_executable(const Plan& plan, const Capabilities& capabilities) {
  if (!capabilities.split_backward && splits_backward(plan)) return "the runtime has no split backward (zero bubble) yet";
  if (!capabilities.several_stages_per_device && has_several_stages_on_a_device(plan))
    return "the runtime has no several stages on one device yet";
  if (!capabilities.replicas && has_replicas(plan)) return "the runtime has no replicas yet";
  if (!capabilities.recompute_stages && recomputes_as(plan, Recompute::Mode::all)) return "the runtime has no recomputation yet";
  if (!capabilities.recompute_layers && recomputes_as(plan, Recompute::Mode::some))
    return "the runtime has no recomputation of single layers yet";
  return "";
}

}  // namespace mptune
