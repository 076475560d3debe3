#include "tuner/runtime/step/host_inputs.h"

#include <utility>

#include "profiler/base/index.h"

namespace mptune::tuner {

HostInputs::HostInputs(const BoundGraph& graph)
    : graph_(graph),
      input_slots_(graph.plan().stages.size() * as_index(graph.plan().num_microbatches())),
      target_slots_(as_index(graph.plan().num_microbatches())) {}

void HostInputs::begin(Tensors inputs, at::Tensor target, const BatchParts& parts) {
  clear();
  parts_ = parts;
  inputs_ = std::move(inputs);
  if (target.defined()) target_.push_back(std::move(target));
}

void HostInputs::clear() {
  inputs_.clear();
  target_.clear();
  for (auto* slots : {&input_slots_, &target_slots_})
    for (Slot& slot : *slots) {
      slot.staged = false;
      slot.tensors.clear();
      slot.error = nullptr;
    }
}

void HostInputs::stage() {
  const Plan& plan = graph_.plan();
  for (int m = 0; m < plan.num_microbatches(); ++m) {
    if (parts_.empty(m)) continue;
    for (int s = 0; s < plan.num_stages(); ++s) stage(input_slot(s, m), read_by(s), device_of(plan.stages[as_index(s)], m), m);
    stage(target_slots_[as_index(m)], target_, device_of(plan.stages.back(), m), m);
  }
}

void HostInputs::end() {
  clear();
}

Tensors HostInputs::inputs_of(int stage, int microbatch) {
  const Device& device = device_of(graph_.plan().stages[as_index(stage)], microbatch);
  return take(input_slot(stage, microbatch), read_by(stage), device, microbatch);
}

at::Tensor HostInputs::target_of(int microbatch) {
  const Tensors taken = take(target_slots_[as_index(microbatch)], target_, device_of(graph_.plan().stages.back(), microbatch), microbatch);
  return taken.empty() ? at::Tensor() : taken[0];
}

Device& HostInputs::device_of(const Stage& stage, int microbatch) const {
  return graph_.device(mptune::device_of(stage, microbatch));
}

Tensors HostInputs::read_by(int stage) const {
  const StageTensors& tensors = graph_.tensors()[as_index(stage)];
  if (tensors.takes_batch) return inputs_;
  Tensors read;
  for (const auto& [input, place] : tensors.batch) read.push_back(inputs_.at(as_index(input)));
  return read;
}

HostInputs::Slot& HostInputs::input_slot(int stage, int microbatch) {
  return input_slots_[as_index(stage) * as_index(graph_.plan().num_microbatches()) + as_index(microbatch)];
}

Tensors HostInputs::samples(const Tensors& batch, int microbatch) const {
  return samples_of(batch, parts_.first(microbatch), parts_.size(microbatch));
}

void HostInputs::stage(Slot& slot, const Tensors& batch, Device& device, int microbatch) {
  if (!device.stages_host_tensors()) return;  // nor do devices of other ranks
  try {
    for (const at::Tensor& tensor : samples(batch, microbatch)) slot.tensors.push_back(device.staged(tensor));
  } catch (...) {
    slot.error = std::current_exception();
  }
  slot.staged = true;
  slot.staged.notify_all();
}

Tensors HostInputs::take(Slot& slot, const Tensors& batch, const Device& device, int microbatch) const {
  if (!device.stages_host_tensors()) return samples(batch, microbatch);
  slot.staged.wait(false);
  if (slot.error) std::rethrow_exception(slot.error);
  return std::move(slot.tensors);
}

}  // namespace mptune::tuner
