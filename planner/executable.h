#pragma once

#include <optional>
#include <string>

#include "planner/plan.h"

namespace mptune {

/// What a runtime can execute beside its least: a chain of stages, each on a device of its own, with whole backwards and nothing
/// recomputed. The default executes every valid plan. `kRuntime` of tuner/runtime/capabilities.h is the one that runs here.
struct Capabilities {
  bool several_stages_per_device = true;
  bool split_backward = true;     ///< rows with I and W: gradients of inputs and of weights apart
  bool replicas = true;           ///< a stage on several devices
  bool recompute_stages = true;   ///< all layers of a stage again in backward
  bool recompute_layers = true;   ///< some of them, or only of some micro-batches
  bool offload = true;            ///< saved activations in host memory
  bool idle_devices_help = true;  ///< ExecutionOptions::idle_devices_help
  bool operator==(const Capabilities&) const = default;
};

/// What a plan needs and a runtime lacks.
enum class MissingCapability {
  split_backward,
  several_stages_per_device,
  replicas,
  recompute_stages,
  recompute_layers,
  offload,
  idle_devices_help,
};

/// "the runtime has no split backward (zero bubble)". Worded here: planner, runtime and reports refuse plans with this clause.
[[nodiscard]] const char* text_of(MissingCapability missing);

/// The first capability that the plan needs and the runtime lacks. Requires: a valid plan; rows may be missing.
[[nodiscard]] std::optional<MissingCapability> missing_capability(const Plan& plan, const Capabilities& capabilities);

/// text_of missing_capability, "" if nothing is missing.
[[nodiscard]] std::string why_not_executable(const Plan& plan, const Capabilities& capabilities);

[[nodiscard]] inline bool executable(const Plan& plan, const Capabilities& capabilities) {
  return !missing_capability(plan, capabilities);
}

}  // namespace mptune
