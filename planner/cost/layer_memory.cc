// What layers keep, hold and need in memory.
#include <algorithm>
#include <cmath>

#include "planner/cost/cost_model.h"
#include "profiler/base/index.h"

namespace mptune {
namespace {

std::int64_t whole_bytes(double bytes) {
  return static_cast<std::int64_t>(std::ceil(bytes));
}

}  // namespace

std::int64_t CostModel::saved_activation_bytes(int device, int first_layer, int last_layer, int samples) const {
  double bytes = 0;
  for (int layer = first_layer; layer < last_layer; ++layer)
    bytes += std::ceil(bytes_at(device, layer, samples, &Point::saved_activation_bytes));
  return whole_bytes(bytes);
}

bool CostModel::keeps_output(int device, int layer) const {
  return std::ranges::any_of(profile_.classes[class_of(device)].layers[as_index(layer)].by_samples, &LayerCost::keeps_output);
}

std::int64_t CostModel::saved_activation_bytes(int device, const Stage& stage, int samples) const {
  if (stage.recompute.mode == Recompute::Mode::all) return 0;
  std::int64_t bytes = 0;
  bool before = false;
  for (int layer = stage.first_layer; layer < stage.last_layer; ++layer) {
    const bool again = recomputes_layer(stage.recompute, layer);
    if (!again) bytes += saved_activation_bytes(device, layer, layer + 1, samples);
    if (before && !again) bytes += boundary_bytes(layer, samples, false);  // what a kept layer made is among what it saves
    before = again;
  }
  return bytes;
}

bool CostModel::split_memory_measured(int device) const {
  return split_measured_[class_of(device)];
}

SplitMemory CostModel::split_memory(int device, int layer, int samples) const {
  const auto at = [&](double Point::*bytes) { return whole_bytes(bytes_at(device, layer, samples, bytes)); };
  SplitMemory memory{at(&Point::held_bytes), at(&Point::held_input_bytes), at(&Point::held_gradient_bytes),
                     at(&Point::input_workspace_bytes), at(&Point::weight_workspace_bytes)};
  add_fused(device, layer, samples, memory);
  return memory;
}

// With more samples fewer convolutions fuse. So a size fuses at least what the next larger measured size does, and at most what the next
// smaller one does, whose bytes grow with the samples.
void CostModel::add_fused(int device, int layer, int samples, SplitMemory& memory) const {
  const Point* below = nullptr;
  const Point* above = nullptr;
  const std::size_t curve = class_of(device) * profile_.layers.size() + as_index(layer);
  for (std::size_t p = curve_starts_[curve]; p < curve_starts_[curve + 1]; ++p) {
    const Point& point = points_[p];
    if (point.fused_share < 0) return;
    if (point.samples <= samples) below = &point;
    if (point.samples >= samples && above == nullptr) above = &point;
  }
  memory.fused_share = above == nullptr ? 0 : above->fused_share;
  memory.fused_bytes = below == nullptr ? memory.held_bytes : whole_bytes(below->fused_bytes * samples / below->samples);
}

std::int64_t CostModel::held_bytes(int device, int first_layer, int last_layer, int samples) const {
  std::int64_t bytes = 0;
  if (split_memory_measured(device)) {
    for (int layer = first_layer; layer < last_layer; ++layer) {
      const SplitMemory memory = split_memory(device, layer, samples);
      bytes += memory.held_bytes;
      if (layer == first_layer) bytes -= memory.held_input_bytes;
      if (layer + 1 == last_layer) bytes -= memory.held_gradient_bytes;
    }
    return std::max<std::int64_t>(0, bytes);
  }
  for (int layer = first_layer; layer < last_layer; ++layer) {
    const ProfileLayer& described = profile_.layers[as_index(layer)];
    const int copies = described.parameters > 0 || described.parameters_bytes > 0 ? 2 : 1;
    bytes += copies * saved_activation_bytes(device, layer, layer + 1, samples);
  }
  return bytes;
}

bool CostModel::peaks_measured(int device, int layer) const {
  const auto& costs = profile_.classes[class_of(device)].layers[as_index(layer)].by_samples;
  return std::ranges::all_of(costs, [](const LayerCost& cost) { return cost.peaks.has_value(); });
}

std::int64_t CostModel::bare_forward_bytes(int device, int layer, int samples) const {
  if (peaks_measured(device, layer)) return whole_bytes(bytes_at(device, layer, samples, &Point::bare_forward_bytes));
  return saved_activation_bytes(device, layer, layer + 1, samples) + workspace_bytes(device, layer, layer + 1, samples);
}

std::int64_t CostModel::first_backward_bytes(int device, int layer, int samples) const {
  if (peaks_measured(device, layer)) return whole_bytes(bytes_at(device, layer, samples, &Point::first_backward_bytes));
  return parameters_bytes(layer, layer + 1) + workspace_bytes(device, layer, layer + 1, samples);
}

std::int64_t CostModel::workspace_bytes(int device, int first_layer, int last_layer, int samples) const {
  double most = 0;
  for (int layer = first_layer; layer < last_layer; ++layer)
    most = std::max(most, bytes_at(device, layer, samples, &Point::workspace_bytes));
  return whole_bytes(most);
}

}  // namespace mptune
