#pragma once

#include "planner/plan/executable.h"

namespace mptune::tuner {

/// What `Pipeline` can execute: every valid plan.
inline constexpr Capabilities kRuntime{
    .several_stages_per_device = true, .split_backward = true, .replicas = true, .recompute_stages = true, .recompute_layers = true};

}  // namespace mptune::tuner
