#pragma once

#include <vector>

#include "profiler/trace/values/profile.h"

namespace mptune::profiler {

/// A layer that takes much longer per sample at one micro-batch size than at the next larger one: another kernel, or fixed costs.
struct CostJump {
  int device_class = 0;  ///< index into Profile::classes
  int layer = 0;
  int samples = 0;         ///< measured micro-batch size
  int larger_samples = 0;  ///< the next larger one
  double factor = 1;       ///< time per sample at `samples` over time per sample at `larger_samples`
  double step_share = 0;   ///< share of the time of all layers at `samples` that the other size's time per sample would save
};

/// When a difference is a jump.
struct JumpLimits {
  double factor = 1.5;       ///< more than this
  double step_share = 0.01;  ///< at least this
  double seconds = 1e-3;     ///< the layer takes at least this at the smaller size; below, the fixed costs of calls make up most of it
};

/// Returns all jumps of the classes that devices name, largest share of the step first within a class. Forward and backward count together,
/// measured while other devices are idle.
[[nodiscard]] std::vector<CostJump> cost_jumps(const Profile& profile, const JumpLimits& limits = {});

}  // namespace mptune::profiler
