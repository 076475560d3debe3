// What happens to parameters between the gradients of a step and their next use: the optimizers' steps, then copies for other replicas and
// tied weights.
#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "profiler/base/activity.h"
#include "profiler/base/index.h"
#include "tuner/runtime/step_runner.h"

namespace mptune::tuner {

namespace {

/// Gives `copy` the values of `from`. On the host it gets the memory itself, which nobody writes during a step. This costs something only
/// the first time, or if the caller has replaced the parameter's memory.
void share_or_copy(at::Tensor copy, const at::Tensor& from) {
  if (!copy.is_cpu() || !from.is_cpu()) return (void)copy.copy_(from);
  if (copy.const_data_ptr() != from.const_data_ptr() || copy.strides() != from.strides()) copy.set_data(from.detach());
}

}  // namespace

void StepRunner::on_stages(const std::function<void(int stage)>& work) {
  finish_update();
  on_trained_replicas([&](StageReplica& replica) { optimize(replica, work); });
}

void StepRunner::on_trained_replicas(const std::function<void(StageReplica&)>& work) {
  running_ = true;
  failed_at_.clear();
  graph_.for_devices([&](int device) {
    for_replicas(device, [&](StageReplica& replica) {
      if (graph_.is_trained(replica)) work(replica);
    });
  });
  running_ = false;
  if (auto error = graph_.take_error()) {
    graph_.recover();
    std::rethrow_exception(error);
  }
}

void StepRunner::optimize(StageReplica& replica, const std::function<void(int stage)>& work) {
  const auto start = profiler::SteadyClock::now();
  const Tag tag{static_cast<int>(steps_) - 1, replica.stage(), -1, -1, 0};
  const TagScope scope(gpus_, tag, EventKind::optimizer);
  const Activity activity("the optimizer");
  try {
    work(replica.stage());
  } catch (...) {
    if (graph_.fail(std::current_exception())) failed_at_ = "stage " + std::to_string(replica.stage()) + ", optimizer";
    throw;
  }
  if (auto* recorder = replica.recorder()) recorder->leaf(EventKind::optimizer, "optimizer", tag, start);
}

void StepRunner::update_with_next_step(std::function<void(int stage)> work) {
  finish_update();
  update_ = std::move(work);
  for (int stage = 0; stage < static_cast<int>(updates_.size()); ++stage) updates_[as_index(stage)].left = graph_.trained(stage) != nullptr;
}

void StepRunner::finish_update() {
  if (running_ || std::ranges::none_of(updates_, [](const StageUpdate& update) { return update.left.load(); })) return;
  on_trained_replicas([this](StageReplica& replica) { update(replica); });
}

void StepRunner::update(StageReplica& replica) {
  StageUpdate& own = updates_[as_index(replica.stage())];
  if (!graph_.is_trained(replica) || !own.left) return;
  const auto done = [&] {
    own.done = graph_.device(graph_.device_of(replica)).now();
    own.left = false;
    graph_.ring_all();
  };
  try {
    optimize(replica, update_);
  } catch (...) {
    done();  // it is not tried again
    throw;
  }
  done();
}

// Where replicas or tied weights wait for the parameters of other devices, all devices update theirs first, so that no two devices can wait
// for each other. Elsewhere a stage's parameters are updated when its first action comes, while other devices already run their actions.
void StepRunner::begin_row(int device, Accumulate accumulate) {
  for_replicas(device, [](StageReplica& replica) { replica.pending_weights().reset(); });
  if (has_copies_) {
    for_replicas(device, [this](StageReplica& replica) { update(replica); });
    give_values(device, false);
    for_replicas(device, [&](StageReplica& replica) {
      prepare(replica, accumulate);
      refresh(replica, device);
    });
  }
  // With fewer micro-batches than replicas, some replicas have nothing to do.
  for_replicas(device, [this](StageReplica& replica) {
    if (replica.replica() >= graph_.plan().num_microbatches()) end_replica(replica);
  });
}

// What earlier steps have summed stays in a stage's first replica alone, so that it counts once where ranks add up their gradients.
void StepRunner::prepare(StageReplica& replica, Accumulate accumulate) {
  update(replica);
  const at::NoGradGuard no_gradients;
  replica.clear_gradients_of_copies();
  if (accumulate == Accumulate::no || replica.replica() > 0) replica.clear_gradients();
}

/// Gives a replica the parameters of the trained replica, and a stage's copies of tied weights the values of the stage that trains them.
void StepRunner::refresh(StageReplica& replica, int device) {
  const bool trained = graph_.is_trained(replica);
  if (trained && replica.copies().empty()) return;
  const at::NoGradGuard no_gradients;
  if (!trained) await_update(replica.stage(), device);
  for (const NamedTensor& copy : replica.copies()) await_update(tied_.of(copy.name).stage, device);
  const auto start = profiler::SteadyClock::now();
  const Tag tag = tag_of(replica);
  const TagScope scope(gpus_, tag, EventKind::reduce);
  if (!trained) {
    const Tensors from = trained_values(replica.stage(), &StageReplica::named_parameters, values_[as_index(replica.stage())].parameters);
    for (std::size_t p = 0; p < from.size(); ++p) share_or_copy(replica.named_parameters()[p].tensor, from[p]);
  }
  for (const NamedTensor& copy : replica.copies()) {
    const TiedWeights::Weight& weight = tied_.of(copy.name);
    share_or_copy(copy.tensor, weight.first.defined() ? weight.first : tied_values_.at(weight.number).at(0));
  }
  if (auto* recorder = replica.recorder()) recorder->leaf(EventKind::reduce, "refresh parameters", tag, start);
}

/// Returns the tensors of a stage's trained replica, or `received` if that replica is on another rank.
Tensors StepRunner::trained_values(int stage, NamedTensors of, const Tensors& received) const {
  const StageReplica* trained = graph_.trained(stage);
  if (trained == nullptr) return received;
  Tensors values;
  for (const NamedTensor& named : (trained->*of)()) values.push_back(named.tensor);
  return values;
}

/// Gives other ranks the values of this device's first replicas.
void StepRunner::give_values(int device, bool buffers) {
  if (!exchange_) return;
  for_replicas(device, [&](const StageReplica& replica) {
    if (replica.replica() == 0) send_values(replica, buffers);
  });
}

/// Makes work that comes now on `device` read the parameters of a stage as the optimizer leaves them.
void StepRunner::await_update(int stage, int device) {
  const StageReplica* trained = graph_.trained(stage);
  if (trained == nullptr) return await_values(device);
  const StageUpdate& update = updates_[as_index(stage)];
  if (!wait_unless_failed(device, [&] { return !update.left; })) throw StepCancelled();
  graph_.device(device).after(update.done);
  // The caller's own optimizer may still be writing them on a GPU.
  graph_.after_caller(device, graph_.device_of(*trained));
}

/// Running statistics are committed to the buffers of the replica that is trained.
void StepRunner::refresh_buffers(StageReplica& replica) {
  if (graph_.is_trained(replica)) return;
  const Tensors from = trained_values(replica.stage(), &StageReplica::named_buffers, values_[as_index(replica.stage())].buffers);
  for (std::size_t b = 0; b < from.size(); ++b) at::Tensor(replica.named_buffers()[b].tensor).copy_(from[b]);
}

}  // namespace mptune::tuner
