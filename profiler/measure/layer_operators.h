#pragma once

#include <vector>

#include "profiler/base/device_spec.h"
#include "profiler/model/layers/model.h"
#include "profiler/trace/analyze/cost_jumps.h"
#include "profiler/trace/values/profile.h"

namespace mptune::profiler {

/// Measures each jump's layer at both of its sizes, a few passes each: the operator that takes most of its time, and what replacing slow
/// kernels is worth. `devices`: one of each class; jumps of other classes and of classes of GPUs, which run operators asynchronously, are
/// left out. Blocks; the passes run on the devices' own threads. The loss does not count.
[[nodiscard]] std::vector<LayerOperator> measure_operators(const Model& model, const Batch& batch, const std::vector<DeviceSpec>& devices,
                                                           const std::vector<CostJump>& jumps);

/// Returns the first of these jumps that can be measured within `seconds`, by the costs of their layers in the profile.
[[nodiscard]] std::vector<CostJump> jumps_within(const Profile& profile, const std::vector<CostJump>& jumps, double seconds);

}  // namespace mptune::profiler
