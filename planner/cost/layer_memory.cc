#include "planner/cost/layer_memory.h"

#include <algorithm>
#include <cmath>

#include "planner/cost/curve_points.h"
#include "profiler/base/error.h"

namespace mptune {

LayerMemory::LayerMemory(const Profile& profile) : parameters_before_{0}, tied_parameters_(profile.tied_parameters) {
  for (const ProfileDevice& device : profile.devices) {
    if (device.device_class < 0 || as_index(device.device_class) >= profile.classes.size())
      throw Error("the profile has no class of device " + device.name, profile.model, "profile the model again");
    class_of_.push_back(device.device_class);
  }
  for (const ProfileLayer& layer : profile.layers) {
    has_parameters_.push_back(layer.parameters > 0 || layer.parameters_bytes > 0);
    parameters_before_.push_back(parameters_before_.back() + layer.parameters_bytes);
  }
  for (const DeviceClass& device_class : profile.classes) add_class(device_class);
}

void LayerMemory::add_class(const DeviceClass& device_class) {
  bool split_measured = true;
  for (const LayerCosts& costs : device_class.layers) {
    const MemoryCurve& curve = curves_.emplace_back(costs);
    split_measured = split_measured && curve.split_measured();
  }
  split_measured_.push_back(split_measured);
  for (const LayerCost* cost : planner::usable_costs(planner::costs_by_size(device_class.layers.back())))
    if (cost->peaks) loss_bytes_ = std::max(loss_bytes_, cost->output_bytes);
}

std::int64_t LayerMemory::parameters_bytes(int first_layer, int last_layer) const {
  std::int64_t bytes = parameters_before_[as_index(last_layer)] - parameters_before_[as_index(first_layer)];
  for (const TiedParameters& tied : tied_parameters_)
    if (tied.earlier_layer >= first_layer && tied.layer < last_layer) bytes -= tied.bytes;
  return bytes;
}

std::int64_t LayerMemory::saved_activation_bytes(int device, int first_layer, int last_layer, int samples) const {
  double bytes = 0;
  for (int layer = first_layer; layer < last_layer; ++layer)
    bytes += std::ceil(curve(device, layer).at(samples, &MemoryPoint::saved_activation_bytes));
  return planner::whole_bytes(bytes);
}

std::int64_t LayerMemory::held_bytes(int device, int first_layer, int last_layer, int samples) const {
  if (!split_memory_measured(device)) return held_bytes_unmeasured(device, first_layer, last_layer, samples);
  std::int64_t bytes = 0;
  for (int layer = first_layer; layer < last_layer; ++layer) {
    const SplitMemory memory = split_memory(device, layer, samples);
    bytes += memory.held_bytes;
    if (layer == first_layer) bytes -= memory.held_input_bytes;
    if (layer + 1 == last_layer) bytes -= memory.held_gradient_bytes;
  }
  return std::max<std::int64_t>(0, bytes);
}

std::int64_t LayerMemory::held_bytes_unmeasured(int device, int first_layer, int last_layer, int samples) const {
  std::int64_t bytes = 0;
  for (int layer = first_layer; layer < last_layer; ++layer) {
    const int copies = has_parameters_[as_index(layer)] ? 2 : 1;
    bytes += copies * saved_activation_bytes(device, layer, layer + 1, samples);
  }
  return bytes;
}

std::int64_t LayerMemory::bare_forward_bytes(int device, int layer, int samples) const {
  const MemoryCurve& measured = curve(device, layer);
  if (measured.peaks_measured()) return planner::whole_bytes(measured.at(samples, &MemoryPoint::bare_forward_bytes));
  return saved_activation_bytes(device, layer, layer + 1, samples) + workspace_bytes(device, layer, layer + 1, samples);
}

std::int64_t LayerMemory::first_backward_bytes(int device, int layer, int samples) const {
  const MemoryCurve& measured = curve(device, layer);
  if (measured.peaks_measured()) return planner::whole_bytes(measured.at(samples, &MemoryPoint::first_backward_bytes));
  return parameters_bytes(layer, layer + 1) + workspace_bytes(device, layer, layer + 1, samples);
}

std::int64_t LayerMemory::workspace_bytes(int device, int first_layer, int last_layer, int samples) const {
  double most = 0;
  for (int layer = first_layer; layer < last_layer; ++layer)
    most = std::max(most, curve(device, layer).at(samples, &MemoryPoint::workspace_bytes));
  return planner::whole_bytes(most);
}

}  // namespace mptune
