#pragma once

#include <optional>
#include <string>

#include "planner/plan/plan.h"
#include "profiler/base/runtime.h"

namespace mptune {

/// What a runtime can execute beyond the least that every runtime can: a chain of stages, each on a device of its own, with whole backwards
/// and nothing recomputed. The default executes every valid plan. `kRuntime` of tuner/runtime/graph/capabilities.h describes the runtime of
/// this project.
struct Capabilities {
  bool several_stages_per_device = true;
  bool split_backward = true;     ///< rows with I and W: gradients of inputs and of weights in separate actions
  bool replicas = true;           ///< a stage on several devices
  bool recompute_stages = true;   ///< all layers of a stage computed again in backward
  bool recompute_layers = true;   ///< some layers of a stage, or all in some micro-batches only
  bool offload = true;            ///< saved activations in host memory
  bool idle_devices_help = true;  ///< ExecutionOptions::idle_devices_help
  bool unequal_replicas = true;   ///< stages of different numbers of replicas; else a batch goes through equal pipelines side by side
  bool fused_weights = true;      ///< weight gradients of several micro-batches in one action
  bool any_order = true;          ///< else 1f1b, and interleaved with several stages on a device
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
  unequal_replicas,
  fused_weights,
  any_order,
};

/// Returns what a runtime can execute. Of other projects: torch.distributed.pipelining runs any order of one process's actions, split
/// backwards included. Megatron-LM has 1f1b, and interleaved for several stages on a device. DeepSpeed's PipelineEngine has 1f1b. All of
/// them recompute, and run equal pipelines side by side; none keeps saved activations in host memory, fuses weight gradients or lets idle
/// devices help.
[[nodiscard]] Capabilities capabilities_of(Runtime runtime);

/// Returns a clause such as "the runtime has no split backward (zero bubble)". Planner, runtime and reports refuse plans with this clause.
[[nodiscard]] const char* text_of(MissingCapability missing);

/// Returns the first capability that the plan needs and the runtime lacks. Requires: a valid plan; rows may be missing.
[[nodiscard]] std::optional<MissingCapability> missing_capability(const Plan& plan, const Capabilities& capabilities);

/// Returns text_of() the missing capability, "" if nothing is missing.
[[nodiscard]] std::string why_not_executable(const Plan& plan, const Capabilities& capabilities);

[[nodiscard]] inline bool executable(const Plan& plan, const Capabilities& capabilities) {
  return !missing_capability(plan, capabilities);
}

}  // namespace mptune
