#include "planner/plan/executable.h"

#include <algorithm>

#include "planner/plan/helping.h"
#include "profiler/base/index.h"

namespace mptune {
namespace {

bool has_several_stages_on_a_device(const Plan& plan) {
  std::vector<int> stages(plan.devices.size(), 0);
  for (const Stage& stage : plan.stages)
    for (const int device : stage.devices) ++stages[as_index(device)];
  return std::ranges::any_of(stages, [](int count) { return count > 1; });
}

bool has_unequal_replicas(const Plan& plan) {
  return std::ranges::any_of(plan.stages, [&](const Stage& stage) { return stage.devices.size() != plan.stages.front().devices.size(); });
}

bool recomputes_as(const Plan& plan, Recompute::Mode mode) {
  return std::ranges::any_of(plan.stages, [mode](const Stage& stage) { return stage.recompute.mode == mode; });
}

}  // namespace

const char* text_of(MissingCapability missing) {
  switch (missing) {
    case MissingCapability::split_backward:
      return "the runtime has no split backward (zero bubble)";
    case MissingCapability::several_stages_per_device:
      return "the runtime has no several stages on one device";
    case MissingCapability::replicas:
      return "the runtime has no replicas";
    case MissingCapability::recompute_stages:
      return "the runtime has no recomputation";
    case MissingCapability::recompute_layers:
      return "the runtime has no recomputation of single layers";
    case MissingCapability::offload:
      return "the runtime has no offloading of saved activations";
    case MissingCapability::idle_devices_help:
      return "in this runtime idle devices do not help";
    case MissingCapability::unequal_replicas:
      return "the runtime has as many replicas of each stage";
    case MissingCapability::fused_weights:
      return "the runtime does not fuse weight gradients of several micro-batches";
    case MissingCapability::any_order:
      return "the runtime has no schedule but 1f1b, and interleaved where it has several stages on a device";
  }
  return "";
}

Capabilities capabilities_of(Runtime runtime) {
  if (runtime == Runtime::mptune) return {};
  return {.several_stages_per_device = runtime != Runtime::deepspeed,
          .split_backward = runtime == Runtime::torch,
          .offload = false,
          .idle_devices_help = false,
          .unequal_replicas = false,
          .fused_weights = false,
          .any_order = runtime == Runtime::torch};
}

std::optional<MissingCapability> missing_capability(const Plan& plan, const Capabilities& capabilities) {
  using enum MissingCapability;
  if (!capabilities.split_backward && planner::splits_backward(plan)) return split_backward;
  if (!capabilities.several_stages_per_device && has_several_stages_on_a_device(plan)) return several_stages_per_device;
  if (!capabilities.replicas && has_replicas(plan)) return replicas;
  if (!capabilities.recompute_stages && recomputes_as(plan, Recompute::Mode::all)) return recompute_stages;
  if (!capabilities.recompute_layers && recomputes_as(plan, Recompute::Mode::some)) return recompute_layers;
  if (!capabilities.offload && std::ranges::any_of(plan.stages, &Stage::offload)) return offload;
  if (!capabilities.idle_devices_help && plan.options.idle_devices_help) return idle_devices_help;
  if (!capabilities.unequal_replicas && has_unequal_replicas(plan)) return unequal_replicas;
  if (!capabilities.fused_weights && fuses_weights(plan)) return fused_weights;
  const bool ordered = plan.num_stages() == 1 || plan.schedule == "1f1b" || plan.schedule == "interleaved";
  if (!capabilities.any_order && !ordered) return any_order;
  return std::nullopt;
}

std::string why_not_executable(const Plan& plan, const Capabilities& capabilities) {
  const auto missing = missing_capability(plan, capabilities);
  return missing ? text_of(*missing) : "";
}

}  // namespace mptune
