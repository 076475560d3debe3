#include "tuner/runtime/step/replica_sums.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "profiler/base/index.h"

namespace mptune::tuner {
namespace {

int replicas_here(const BoundGraph::Replicas& replicas) {
  return static_cast<int>(std::ranges::count_if(replicas, [](const auto& replica) { return replica != nullptr; }));
}

}  // namespace

ReplicaSums::ReplicaSums(RunningStep& step, const TiedWeights& tied, RankStep& ranks)
    : step_(step), graph_(step.graph), tied_(tied), ranks_(ranks), ends_(step.graph.stages().size()) {}

void ReplicaSums::begin() {
  for (std::size_t s = 0; s < ends_.size(); ++s) {
    const BoundGraph::Replicas& replicas = graph_.stages()[s];
    ends_[s].running = replicas_here(replicas);
    ends_[s].shares_left = shares_of(static_cast<int>(s));
    ends_[s].computed.assign(replicas.size(), nullptr);
    ends_[s].finished.assign(replicas.size(), nullptr);
  }
}

/// On CPU every replica's thread finishes a share of the stage. On a GPU the thread of the trained replica finishes everything: work of
/// another thread on its memory would be on no recorded lane. It does the same where replicas are on several ranks. A rank that does not
/// train the stage has nothing to finish.
int ReplicaSums::shares_of(int stage) const {
  const StageReplica* trained = graph_.trained(stage);
  if (trained == nullptr) return 0;
  const BoundGraph::Replicas& replicas = graph_.replicas(stage);
  const bool all_here = replicas_here(replicas) == static_cast<int>(replicas.size());
  return trained->on_gpu() || !all_here ? 1 : static_cast<int>(replicas.size());
}

/// Returns which share the replica's thread finishes, if there are that many shares.
int ReplicaSums::share_of(const StageReplica& replica) const {
  return graph_.is_trained(replica) ? 0 : replica.replica();
}

void ReplicaSums::end_replica(StageReplica& replica) {
  if (graph_.several_train(replica.stage()) && replica.has_batch_statistics()) ranks_.share_statistics(replica);
  StageEnd& end = ends_[as_index(replica.stage())];
  // A GPU's thread is ahead of its work. Nobody waits: other devices start to read after this moment.
  if (end.computed.size() > 1) end.computed[as_index(replica.replica())] = graph_.device(graph_.device_of(replica)).now();
  if (--end.running == 0) graph_.ring_all();
}

void ReplicaSums::finish(int device) {
  const at::NoGradGuard no_grad;
  // Gradients are sent before this device waits for any, so that no two ranks wait for each other.
  step_.for_replicas(device, [this](StageReplica& replica) { ranks_.send_gradients_of(replica); });
  // The last stage is the first one whose backwards end.
  for (auto replicas = graph_.stages().rbegin(); replicas != graph_.stages().rend(); ++replicas)
    for (const auto& replica : *replicas)
      if (replica && graph_.device_of(*replica) == device && !finish_share(*replica)) return;
  const auto all_ended = [this] { return std::ranges::all_of(ends_, [](const StageEnd& end) { return end.running == 0; }); };
  if (step_.help.takes_part(device) && !step_.wait_unless_failed(device, all_ended)) return;
  if (!tied_.empty()) finish_tied(device);
}

/// Adds the gradients of tied copies to those of the stage that trains the weight, in order of the stages.
void ReplicaSums::finish_tied(int device) {
  if (!step_.wait_unless_failed(device, [this] { return all_shares_done(); })) return;
  for (const StageEnd& end : ends_) step_.after(device, end.finished);
  step_.for_replicas(device, [this](const StageReplica& replica) {
    if (replica.replica() == 0) ranks_.send_tied_gradients(replica);
  });
  for (const auto& [name, weight] : tied_.all()) {
    StageReplica* const trained = graph_.trained(weight.stage);
    if (trained != nullptr && graph_.device_of(*trained) == device) sum_tied(weight, *trained);
  }
}

void ReplicaSums::sum_tied(const TiedWeights::Weight& weight, StageReplica& trained) {
  const RecordedWork recorded(step_, trained, EventKind::reduce, "sum tied gradients");
  for (const TiedWeights::Copy& copy : weight.copies)
    add_gradient(weight.first, copy.tensor.defined() ? copy.tensor.grad() : ranks_.receive_tied_gradient(weight, copy));
}

bool ReplicaSums::all_shares_done() const {
  return std::ranges::all_of(ends_, [](const StageEnd& end) { return end.shares_left == 0; });
}

/// Returns false if the step has failed.
bool ReplicaSums::finish_share(StageReplica& replica) {
  StageEnd& end = ends_[as_index(replica.stage())];
  const int shares = shares_of(replica.stage()), device = graph_.device_of(replica);
  if (share_of(replica) >= shares) return true;
  if (!step_.wait_unless_failed(device, [&] { return end.running == 0; })) return false;
  if (graph_.replicas(replica.stage()).size() > 1) {
    await_computed(replica, end.computed);
    sum_gradients(replica, shares);
  }
  if (replica.has_batch_statistics()) {
    ranks_.receive_statistics(replica);
    commit_statistics(replica, shares);
  }
  if (!tied_.empty()) end.finished[as_index(replica.replica())] = graph_.device(device).now();
  if (--end.shares_left == 0) graph_.ring_all();
  return true;
}

void ReplicaSums::sum_gradients(StageReplica& replica, int shares) {
  if (!graph_.several_train(replica.stage())) return sum_replicas(replica, shares);
  if (!graph_.all_reduces(replica.stage())) return ranks_.sum_shares(replica);
  sum_replicas(replica, shares);
  ranks_.all_reduce(replica);
}

/// Makes the replica's sums of gradients start after all of these moments. A GPU's lane does not hold back what its thread sums in host
/// memory, so the thread itself waits.
void ReplicaSums::await_computed(const StageReplica& replica, const std::vector<MomentPtr>& computed) {
  if (!replica.on_gpu() || graph_.trained(replica.stage())->on_gpu()) return step_.after(graph_.device_of(replica), computed);
  for (const MomentPtr& moment : computed) wait_for(moment);
}

/// Sums a share of the replicas' gradients into those of the trained replica, in order of the replicas: those of all ranks where it alone
/// is trained, otherwise those of this rank.
void ReplicaSums::sum_replicas(StageReplica& replica, int shares) {
  const RecordedWork recorded(step_, replica, EventKind::reduce, "sum gradients");
  const BoundGraph::Replicas& replicas = graph_.replicas(replica.stage());
  const StageReplica& sum = *graph_.trained(replica.stage());
  const bool only_own = graph_.all_reduces(replica.stage());
  const auto add = [&](const auto& gradient_of) {
    for (std::size_t p = as_index(share_of(replica)); p < sum.trained().size(); p += as_index(shares))
      add_gradient(sum.trained()[p], gradient_of(p));
  };
  for (std::size_t other = 0; other < replicas.size(); ++other) {
    if (replicas[other].get() == &sum || (only_own && !replicas[other])) continue;
    if (replicas[other]) {
      add([&](std::size_t p) { return replicas[other]->trained()[p].grad(); });
      continue;
    }
    const Tensors received = ranks_.await_gradients_of(replica.stage(), static_cast<int>(other));
    add([&](std::size_t p) { return received.at(p); });
  }
}

void ReplicaSums::commit_statistics(const StageReplica& replica, int shares) {
  const TagScope scope(step_.gpus, step_.tag_of(replica), EventKind::reduce);
  std::vector<StageReplica*> all;
  for (const auto& each : graph_.replicas(replica.stage()))
    if (each) all.push_back(each.get());
  all[0]->commit_statistics(all, share_of(replica), shares);
}

}  // namespace mptune::tuner
