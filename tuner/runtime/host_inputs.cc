#include "tuner/runtime/host_inputs.h"

#include <utility>

#include "profiler/base/index.h"

namespace mptune::tuner {

HostInputs::HostInputs(const BoundGraph& graph)
    : graph_(graph), input_slots_(as_index(graph.plan().num_microbatches())), target_slots_(as_index(graph.plan().num_microbatches())) {}

void HostInputs::begin(Tensors inputs, at::Tensor target) {
  inputs_ = std::move(inputs);
  target_.clear();
  if (target.defined()) target_.push_back(std::move(target));
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
    stage(input_slots_[as_index(m)], inputs_, device_of(plan.stages.front(), m), m);
    stage(target_slots_[as_index(m)], target_, device_of(plan.stages.back(), m), m);
  }
}

void HostInputs::end() {
  begin({}, {});
}

Tensors HostInputs::inputs_of(int microbatch) {
  return take(input_slots_[as_index(microbatch)], inputs_, device_of(graph_.plan().stages.front(), microbatch), microbatch);
}

at::Tensor HostInputs::target_of(int microbatch) {
  const Tensors taken = take(target_slots_[as_index(microbatch)], target_, device_of(graph_.plan().stages.back(), microbatch), microbatch);
  return taken.empty() ? at::Tensor() : taken[0];
}

Device& HostInputs::device_of(const Stage& stage, int microbatch) const {
  return graph_.device(mptune::device_of(stage, microbatch));
}

Tensors HostInputs::samples(const Tensors& batch, int microbatch) const {
  return samples_of(batch, graph_.first_sample(microbatch), graph_.plan().microbatch_sizes[as_index(microbatch)]);
}

void HostInputs::stage(Slot& slot, const Tensors& batch, Device& device, int microbatch) {
  if (!device.stages_host_tensors()) return;
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
