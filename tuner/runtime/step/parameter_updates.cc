#include "tuner/runtime/step/parameter_updates.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "profiler/base/activity.h"
#include "profiler/base/index.h"

namespace mptune::tuner {
namespace {

/// Gives `copy` the values of `from`. On the host it gets the memory itself, which nobody writes during a step. This costs something only
/// the first time, or if the caller has replaced the parameter's memory.
void share_or_copy(at::Tensor copy, const at::Tensor& from) {
  if (!copy.is_cpu() || !from.is_cpu()) return (void)copy.copy_(from);
  if (copy.const_data_ptr() != from.const_data_ptr() || copy.strides() != from.strides()) copy.set_data(from.detach());
}

}  // namespace

ParameterUpdates::ParameterUpdates(RunningStep& step, const TiedWeights& tied, RankStep& ranks)
    : step_(step),
      graph_(step.graph),
      tied_(tied),
      ranks_(ranks),
      has_copies_(step.graph.has_replicas() || !tied.empty()),
      updates_(step.graph.stages().size()) {}

void ParameterUpdates::on_stages(const std::function<void(int stage)>& work) {
  finish();
  on_trained_replicas([&](StageReplica& replica) { optimize(replica, work); });
}

void ParameterUpdates::on_trained_replicas(const std::function<void(StageReplica&)>& work) {
  step_.run([&](int device) {
    step_.for_replicas(device, [&](StageReplica& replica) {
      if (graph_.is_trained(replica)) work(replica);
    });
  });
}

void ParameterUpdates::optimize(StageReplica& replica, const std::function<void(int stage)>& work) {
  const Tag tag{static_cast<int>(step_.number) - 1, replica.stage(), -1, -1, 0};
  const RecordedWork recorded(step_, replica, EventKind::optimizer, "optimizer", tag);
  const Activity activity("the optimizer");
  try {
    work(replica.stage());
  } catch (...) {
    if (graph_.fail(std::current_exception())) step_.failed_at = "stage " + std::to_string(replica.stage()) + ", optimizer";
    throw;
  }
}

void ParameterUpdates::with_next_step(std::function<void(int stage)> work) {
  finish();
  update_ = std::move(work);
  for (int stage = 0; stage < static_cast<int>(updates_.size()); ++stage) updates_[as_index(stage)].left = graph_.trained(stage) != nullptr;
}

void ParameterUpdates::finish() {
  if (step_.running || std::ranges::none_of(updates_, [](const StageUpdate& update) { return update.left.load(); })) return;
  on_trained_replicas([this](StageReplica& replica) { update(replica); });
}

/// Runs the work of with_next_step() for the stage, if it has not run yet and this replica is the one that is trained.
void ParameterUpdates::update(StageReplica& replica) {
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
void ParameterUpdates::begin_row(int device, Accumulate accumulate) {
  if (!has_copies_) return;
  step_.for_replicas(device, [this](StageReplica& replica) { update(replica); });
  give_values(device, false);
  step_.for_replicas(device, [&](StageReplica& replica) {
    prepare(replica, accumulate);
    refresh(replica, device);
  });
}

// What earlier steps have summed stays in a stage's first replica alone, so that it counts once where ranks add up their gradients.
void ParameterUpdates::prepare(StageReplica& replica, Accumulate accumulate) {
  update(replica);
  const at::NoGradGuard no_gradients;
  replica.clear_gradients_of_copies();
  if (accumulate == Accumulate::no || replica.replica() > 0) replica.clear_gradients();
}

void ParameterUpdates::begin_evaluation(int device) {
  if (has_copies_) give_values(device, true);
  step_.for_replicas(device, [&](StageReplica& replica) {
    if (has_copies_) refresh(replica, device);
    refresh_buffers(replica);
  });
}

/// Gives a replica the parameters of the trained replica, and a stage's copies of tied weights the values of the stage that trains them.
void ParameterUpdates::refresh(StageReplica& replica, int device) {
  const bool trained = graph_.is_trained(replica);
  if (trained && replica.copies().empty()) return;
  const at::NoGradGuard no_gradients;
  if (!trained) await_update(replica.stage(), device);
  for (const NamedTensor& copy : replica.copies()) await_update(tied_.of(copy.name).stage, device);
  const RecordedWork recorded(step_, replica, EventKind::reduce, "refresh parameters");
  copy_parameters(replica, trained);
}

void ParameterUpdates::copy_parameters(StageReplica& replica, bool trained) {
  if (!trained) {
    const Tensors from = trained_values(replica.stage(), &StageReplica::named_parameters, ranks_.parameters_of(replica.stage()));
    for (std::size_t p = 0; p < from.size(); ++p) share_or_copy(replica.named_parameters()[p].tensor, from[p]);
  }
  for (const NamedTensor& copy : replica.copies()) {
    const TiedWeights::Weight& weight = tied_.of(copy.name);
    share_or_copy(copy.tensor, weight.first.defined() ? weight.first : ranks_.tied_value(weight.number));
  }
}

/// Returns the tensors of a stage's trained replica, or `received` if that replica is on another rank.
Tensors ParameterUpdates::trained_values(int stage, NamedTensors of, const Tensors& received) const {
  const StageReplica* trained = graph_.trained(stage);
  if (trained == nullptr) return received;
  Tensors values;
  for (const NamedTensor& named : (trained->*of)()) values.push_back(named.tensor);
  return values;
}

/// Gives other ranks the values of this device's first replicas.
void ParameterUpdates::give_values(int device, bool buffers) {
  step_.for_replicas(device, [&](const StageReplica& replica) {
    if (replica.replica() == 0) ranks_.send_values(replica, buffers);
  });
}

/// Makes work that comes now on `device` read the parameters of a stage as the optimizer leaves them.
void ParameterUpdates::await_update(int stage, int device) {
  const StageReplica* trained = graph_.trained(stage);
  if (trained == nullptr) return ranks_.await_values(device);
  const StageUpdate& update = updates_[as_index(stage)];
  if (!step_.wait_unless_failed(device, [&] { return !update.left; })) throw StepCancelled();
  graph_.device(device).after(update.done);
  // The caller's own optimizer may still be writing them on a GPU.
  graph_.after_caller(device, graph_.device_of(*trained));
}

/// Running statistics are committed to the buffers of the replica that is trained.
void ParameterUpdates::refresh_buffers(StageReplica& replica) {
  if (graph_.is_trained(replica)) return;
  const Tensors from = trained_values(replica.stage(), &StageReplica::named_buffers, ranks_.buffers_of(replica.stage()));
  for (std::size_t b = 0; b < from.size(); ++b) at::Tensor(replica.named_buffers()[b].tensor).copy_(from[b]);
}

}  // namespace mptune::tuner
