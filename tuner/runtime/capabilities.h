#pragma once

#include "planner/executable.h"

namespace mptune::tuner {

/// What `Pipeline` can execute: forward and whole backward, stages on any devices.
inline constexpr Capabilities kRuntime{
    .several_stages_per_device = true, .split_backward = false, .replicas = true, .recompute_stages = true, .recompute_layers = true};

}  // namespace mptune::tuner
