#include "planner/executable.h"

#include <algorithm>

#include "profiler/base/index.h"

namespace mptune {
namespace {

bool has_several_stages_on_a_device(const Plan& plan) {
  std::vector<int> stages(plan.devices.size(), 0);
  for (const Stage& stage : plan.stages)
    for (const int device : stage.devices) ++stages[as_index(device)];
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

const char* text_of(MissingCapability missing) {
  switch (missing) {
    case MissingCapability::split_backward:
      return "the runtime has no split backward (zero bubble) yet";
    case MissingCapability::several_stages_per_device:
      return "the runtime has no several stages on one device yet";
    case MissingCapability::replicas:
      return "the runtime has no replicas yet";
    case MissingCapability::recompute_stages:
      return "the runtime has no recomputation yet";
    case MissingCapability::recompute_layers:
      return "the runtime has no recomputation of single layers yet";
  }
  return "";
}

std::optional<MissingCapability> missing_capability(const Plan& plan, const Capabilities& capabilities) {
  using enum MissingCapability;
  if (!capabilities.split_backward && splits_backward(plan)) return split_backward;
  if (!capabilities.several_stages_per_device && has_several_stages_on_a_device(plan)) return several_stages_per_device;
  if (!capabilities.replicas && has_replicas(plan)) return replicas;
  if (!capabilities.recompute_stages && recomputes_as(plan, Recompute::Mode::all)) return recompute_stages;
  if (!capabilities.recompute_layers && recomputes_as(plan, Recompute::Mode::some)) return recompute_layers;
  return std::nullopt;
}

std::string why_not_executable(const Plan& plan, const Capabilities& capabilities) {
  const auto missing = missing_capability(plan, capabilities);
  return missing ? text_of(*missing) : "";
}

}  // namespace mptune
