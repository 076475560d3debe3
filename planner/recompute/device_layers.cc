#include "planner/recompute/device_layers.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "planner/cost/stage_need.h"
#include "planner/schedule/schedule.h"
#include "profiler/base/index.h"

namespace mptune::planner {

DeviceLayers::DeviceLayers(const Plan& plan, int device, const CostModel& cost) {
  for (int s = 0; s < plan.num_stages(); ++s)
    if (std::ranges::count(plan.stages[as_index(s)].devices, device) > 0) add(plan, s, device, cost);
}

void DeviceLayers::add(const Plan& plan, int stage, int device, const CostModel& cost) {
  const int first_layer = plan.stages[as_index(stage)].first_layer, last_layer = plan.stages[as_index(stage)].last_layer;
  const int index = cost.device_index(plan.devices[as_index(device)]);
  const int samples = *std::ranges::max_element(plan.microbatch_sizes);
  const std::int64_t flights = most_in_flight(plan, stage);
  const std::int64_t gradients = cost.parameters_bytes(first_layer, last_layer);
  for (int layer = first_layer; layer < last_layer; ++layer) {
    const bool first = layer == first_layer;
    const std::int64_t saved = cost.memory().saved_activation_bytes(index, layer, layer + 1, samples);
    const std::int64_t input = cost.boundary_bytes(layer, samples, false);
    choices_.push_back(
        {stage, layer, std::llround(cost.layer(index, layer, samples).forward_s * 1e9), flights * saved, flights * input, first});
    // Later backwards find all gradients there; while the first backward makes them, fewer are there.
    const std::int64_t missing = gradients - cost.parameters_bytes(layer + 1, last_layer);
    const std::int64_t workspace = std::max(cost.memory().workspace_bytes(index, layer, layer + 1, samples),
                                            cost.memory().first_backward_bytes(index, layer, samples) - missing);
    const std::int64_t of_output = layer + 1 < last_layer ? cost.boundary_bytes(layer + 1, samples, true) : 0;
    needs_.push_back({saved, workspace + of_output - dropped_output(cost, index, layer, samples), input, first});
  }
}

void DeviceLayers::choose(const LayerSet& set, Plan& plan) const {
  for (const LayerChoice& layer : choices_) plan.stages[as_index(layer.stage)].recompute = {};
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    if (!set[i]) continue;
    Recompute& recompute = plan.stages[as_index(choices_[i].stage)].recompute;
    recompute.mode = Recompute::Mode::some;
    recompute.layers.push_back(choices_[i].layer);
  }
  for (Stage& stage : plan.stages)
    if (std::ssize(stage.recompute.layers) == stage.last_layer - stage.first_layer) stage.recompute = {Recompute::Mode::all, {}, {}};
}

}  // namespace mptune::planner
