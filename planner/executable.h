#pragma once

#include <string>

#include "mptune/planner/plan.h"

namespace mptune {

/// What a runtime can execute beside its least: a chain of stages, each on a device of its own, with whole backwards and nothing
/// recomputed. The default executes every valid plan. `kRuntime` of tuner/runtime/capabilities.h is the one that runs here.
struct Capabilities {
  bool several_stages_per_device = true;
  bool split_backward = true;    ///< rows with I and W: gradients of inputs and of weights apart
  bool replicas = true;          ///< a stage on several devices
  bool recompute_stages = true;  ///< all layers of a stage again in backward
  bool recompute_layers = true;  ///< some of them, or only of some micro-batches
  bool operator==(const Capabilities&) const = default;
};

/// "" if a runtime with these capabilities executes the plan, else the first reason why not, as a clause: "the runtime has no split
/// backward (zero bubble) yet". Requires: a valid plan; rows may be missing.
[[nodiscard]] std::string why_not_executable(const Plan& plan, const Capabilities& capabilities);

[[nodiscard]] inline bool executable(const Plan& plan, const Capabilities& capabilities) {
  return why_not_executable(plan, capabilities).empty();
}

}  // namespace mptune
