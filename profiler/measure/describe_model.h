#pragma once

#include <vector>

#include "profiler/base/optimizer_choice.h"
#include "profiler/measure/class_costs.h"
#include "profiler/model/layers/model.h"
#include "profiler/trace/values/profile.h"

namespace mptune::profiler {

/// Returns the layers of a profile, without costs.
[[nodiscard]] std::vector<ProfileLayer> describe_layers(const Model& model);
/// Returns a profile that says what a model is, for a global batch of `samples`, without costs and devices.
[[nodiscard]] Profile describe_model(const Model& model, const Batch& batch, int samples, const OptimizerChoice& optimizer);
/// Adds what layers pass to each other, which of their parameters a backward does not split, and which buffers they write.
void describe_flow(const Model& model, const MeasuredClass& measured, Profile& profile);

}  // namespace mptune::profiler
