#pragma once

#include "planner/executable.h"

namespace mptune::tuner {

/// What `Pipeline` can execute: every valid plan, of which idle devices do not help one another.
inline constexpr Capabilities kRuntime{.several_stages_per_device = true,
                                       .split_backward = true,
                                       .replicas = true,
                                       .recompute_stages = true,
                                       .recompute_layers = true,
                                       .idle_devices_help = false};

}  // namespace mptune::tuner
