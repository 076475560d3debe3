// What a step of several ranks exchanges besides the messages of its stages. Every rank that has replicas of a stage trains it, with the
// sum of all their gradients. Each of these R ranks adds up one of R parts of every gradient, in order of the replicas, here with R = 2:
//
//     rank 0     update ---> forwards, backwards ---> gradients' 2nd half -->   <-- their 1st half; sum of it -->   <-- sum of the 2nd
//     rank 1     update ---> forwards, backwards ---> gradients' 1st half -->   <-- their 2nd half; sum of it -->   <-- sum of the 1st
//     both                                            statistics of batch norms, and then losses of the micro-batches <---> all ranks
//
// With Reduce::all_reduce each rank sums its own replicas' gradients, and an all-reduce adds these sums.
//
// Where devices would not train the stage alike (BoundGraph), the rank of the first replica trains it for all:
//
//     rank of the first replica     update, parameters --->                          <--- gradients, statistics of the others; sum
//     rank of another replica                          ---> forwards, backwards ---> gradients, statistics
#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include "profiler/base/index.h"
#include "tuner/runtime/step_runner.h"

namespace mptune::tuner {

namespace {

/// Returns part `share` of `shares` of a gradient: some of its rows, maybe none.
at::Tensor rows_of(const at::Tensor& gradient, int share, int shares) {
  if (!gradient.defined() || shares == 1) return gradient;
  const at::Tensor rows = gradient.dim() > 0 ? gradient : gradient.view({1});
  const std::int64_t first = rows.size(0) * share / shares, end = rows.size(0) * (share + 1) / shares;
  return rows.narrow(0, first, end - first);
}

Tensors rows_of(const Tensors& gradients, int share, int shares) {
  Tensors rows;
  for (const at::Tensor& gradient : gradients) rows.push_back(rows_of(gradient, share, shares));
  return rows;
}

Tensors gradients_of(const StageReplica& replica) {
  Tensors gradients;
  for (const at::Tensor& trained : replica.trained()) gradients.push_back(trained.grad());
  return gradients;
}

constexpr std::chrono::microseconds kUntilAdded{200};  // adding up takes longer than that

/// Whose memory holds the sum after an addition.
enum class Into { sum, gradient };

/// Adds each gradient to its parameter's sum, on the parameter's device. The first gradients become the sums. a + b has the bits of b + a.
void add(const Tensors& gradients, const Tensors& parameters, Into into, Tensors& sums) {
  sums.resize(parameters.size());
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    if (!gradients.at(p).defined()) continue;
    at::Tensor gradient = gradients[p].to(parameters[p].device());
    if (!sums[p].defined() || into == Into::gradient) std::swap(sums[p], gradient);
    if (gradient.defined()) sums[p].add_(gradient);
  }
}

void set_rows(const Tensors& parameters, const Tensors& rows, int share, int shares) {
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    if (!rows.at(p).defined()) continue;
    at::Tensor parameter = parameters[p];
    at::Tensor& gradient = parameter.mutable_grad();
    if (!gradient.defined()) gradient = at::empty_like(parameters[p]);
    const at::Tensor own = rows_of(gradient, share, shares);
    if (!own.is_alias_of(rows[p])) own.copy_(rows[p]);
  }
}

/// Gives `kept` these values, in the memory that replicas share with it.
void keep(const Tensors& received, Tensors& kept) {
  const at::NoGradGuard no_gradients;
  if (kept.size() != received.size()) kept = received;
  for (std::size_t i = 0; i < kept.size(); ++i)
    if (!kept[i].is_same(received[i])) kept[i].copy_(received[i]);
}

}  // namespace

/// Returns the first replica of a stage on each rank that has one and does not train it.
std::vector<int> StepRunner::replicas_elsewhere(int stage) const {
  std::vector<int> first_of_rank;
  const std::vector<int> training = graph_.ranks_training(stage);
  std::set<int> ranks(training.begin(), training.end());
  for (int r = 0; r < static_cast<int>(graph_.replicas(stage).size()); ++r)
    if (ranks.insert(graph_.rank_of(stage, r)).second) first_of_rank.push_back(r);
  return first_of_rank;
}

/// Returns the first replica of a stage here, -1 for none.
int StepRunner::replica_here(int stage) const {
  const BoundGraph::Replicas& replicas = graph_.replicas(stage);
  const auto here = std::ranges::find_if(replicas, [](const auto& replica) { return replica != nullptr; });
  return here == replicas.end() ? -1 : static_cast<int>(here - replicas.begin());
}

/// Runs in the compute thread of a stage's first replica, once its parameters are those of the step.
void StepRunner::send_values(const StageReplica& first, bool buffers) {
  const int stage = first.stage();
  const auto tensors_of = [](const std::vector<NamedTensor>& named) {
    Tensors tensors;
    for (const NamedTensor& each : named) tensors.push_back(each.tensor);
    return tensors;
  };
  for (const int r : replicas_elsewhere(stage)) {
    const int rank = graph_.rank_of(stage, r);
    exchange_->send(RankExchange::Of::parameters, stage, r, rank, tensors_of(first.named_parameters()));
    if (buffers) exchange_->send(RankExchange::Of::buffers, stage, r, rank, tensors_of(first.named_buffers()));
  }
  for (const auto& [name, weight] : tied_.all()) {
    if (weight.stage != stage) continue;
    const std::vector<int> training = graph_.ranks_training(stage);
    std::set<int> ranks(training.begin(), training.end());
    for (const TiedWeights::Copy& copy : weight.copies)
      for (int r = 0; r < static_cast<int>(graph_.replicas(copy.stage).size()); ++r)
        if (const int rank = graph_.rank_of(copy.stage, r); ranks.insert(rank).second)
          exchange_->send_tied(false, weight.number, copy.stage, rank, weight.first);
  }
}

/// Runs in the thread that drives the step.
void StepRunner::receive_values(bool buffers) {
  try {
    for (int stage = 0; stage < graph_.plan().num_stages(); ++stage)
      if (const int r = replica_here(stage); r > 0 && graph_.trained(stage) == nullptr) {
        const auto charged = graph_.device(graph_.device_of(*graph_.replicas(stage)[as_index(r)])).charge_thread();
        const int rank = graph_.rank_of(stage, 0);
        Values& values = values_[as_index(stage)];
        keep(exchange_->receive(RankExchange::Of::parameters, stage, r, rank), values.parameters);
        if (buffers) keep(exchange_->receive(RankExchange::Of::buffers, stage, r, rank), values.buffers);
      }
    for (const auto& [name, weight] : tied_.all()) {
      const auto here = std::ranges::find_if(weight.copies, [&](const auto& copy) { return replica_here(copy.stage) >= 0; });
      if (graph_.trained(weight.stage) != nullptr || here == weight.copies.end()) continue;
      keep({exchange_->receive_tied(false, weight.number, here->stage, graph_.rank_of(weight.stage, 0))}, tied_values_[weight.number]);
    }
  } catch (...) {
    (void)graph_.fail(std::current_exception());
  }
  values_are_here_ = true;
  graph_.ring_all();
}

/// Lets the device's thread wait until receive_values() has brought the values.
void StepRunner::await_values(int device) {
  if (!wait_unless_failed(device, [this] { return values_are_here_.load(); })) throw StepCancelled();
}

/// Runs in the compute thread of a replica whose row has ended. Sends each rank that trains the stage the part that this rank sums.
void StepRunner::send_gradients_of(StageReplica& replica) {
  const int stage = replica.stage(), r = replica.replica(), first = graph_.rank_of(stage, 0);
  if (graph_.all_reduces(stage)) return;
  const std::vector<int> ranks = graph_.ranks_training(stage);
  for (std::size_t share = 0; share < ranks.size(); ++share)
    if (ranks[share] != graph_.ranks()->group().rank())
      exchange_->send_gradients(RankExchange::Of::gradients, stage, r, ranks[share],
                                rows_of(gradients_of(replica), static_cast<int>(share), static_cast<int>(ranks.size())));
  if (graph_.trained(stage) != nullptr) return;
  if (replica.has_batch_statistics()) exchange_->send(RankExchange::Of::statistics, stage, r, first, replica.take_statistics());
}

/// Runs in the thread that drives the step, while devices compute: gradients that arrive before this rank's own are ready need not be
/// waited for. The last stage is the first one whose backwards end.
void StepRunner::receive_gradients() {
  try {
    for (int stage = graph_.plan().num_stages() - 1; stage >= 0; --stage) {
      const StageReplica* const trained = graph_.trained(stage);
      const BoundGraph::Replicas& replicas = graph_.replicas(stage);
      if (trained == nullptr || graph_.all_reduces(stage)) continue;
      const auto charged = graph_.device(graph_.device_of(*trained)).charge_thread();
      Arrived& arrived = arrived_[as_index(stage)];
      for (int r = 0; r < static_cast<int>(replicas.size()); ++r) {
        if (replicas[as_index(r)]) continue;
        while (arrived.replica >= 0 && !graph_.failed()) std::this_thread::sleep_for(kUntilAdded);
        if (graph_.failed()) return;
        arrived.gradients = exchange_->receive_gradients(RankExchange::Of::gradients, stage, r, graph_.rank_of(stage, r));
        arrived.replica = r;
        graph_.ring_all();
      }
    }
  } catch (...) {
    (void)graph_.fail(std::current_exception());
  }
}

/// Returns the gradients of another rank's replica, in the order of StageReplica::trained(). Runs in the compute thread of the replica that
/// is trained.
Tensors StepRunner::await_gradients_of(int stage, int replica) {
  Arrived& arrived = arrived_[as_index(stage)];
  if (!wait_unless_failed(graph_.device_of(*graph_.trained(stage)), [&] { return arrived.replica == replica; })) throw StepCancelled();
  Tensors gradients = std::move(arrived.gradients);
  arrived.gradients.clear();
  arrived.replica = -1;
  return gradients;
}

/// Runs in the compute thread of the replica that is trained, once the gradients of all replicas here are final.
void StepRunner::sum_shares(StageReplica& trained) {
  const auto start = profiler::SteadyClock::now();
  const Tag tag = tag_of(trained);
  const TagScope scope(gpus_, tag, EventKind::reduce);
  const int stage = trained.stage(), own_rank = graph_.ranks()->group().rank();
  const std::vector<int> ranks = graph_.ranks_training(stage);
  const int shares = static_cast<int>(ranks.size());
  const int own = static_cast<int>(std::ranges::find(ranks, own_rank) - ranks.begin());
  const BoundGraph::Replicas& replicas = graph_.replicas(stage);
  Tensors sums;
  for (int r = 0; r < static_cast<int>(replicas.size()); ++r) {
    const StageReplica* here = replicas[as_index(r)].get();
    add(here != nullptr ? rows_of(gradients_of(*here), own, shares) : await_gradients_of(stage, r), trained.trained(),
        here == &trained ? Into::gradient : Into::sum, sums);
  }
  for (const int rank : ranks)
    if (rank != own_rank) exchange_->send_gradients(RankExchange::Of::sums, stage, 0, rank, sums);
  const auto sums_of = [&](int share) {
    if (share == own) return sums;
    const Tensors places = rows_of(gradients_of(trained), share, shares);
    return exchange_->receive_gradients(RankExchange::Of::sums, stage, 0, ranks[as_index(share)], places);
  };
  for (int share = 0; share < shares; ++share) set_rows(trained.trained(), sums_of(share), share, shares);
  if (auto* recorder = trained.recorder()) recorder->leaf(EventKind::reduce, "sum gradients", tag, start);
}

/// Runs in the compute thread of the replica that is trained, once it has the gradients of all replicas here.
void StepRunner::all_reduce(StageReplica& trained) {
  const auto start = profiler::SteadyClock::now();
  const Tag tag = tag_of(trained);
  const TagScope scope(gpus_, tag, EventKind::reduce);
  exchange_->all_reduce(trained.stage(), trained.trained());
  if (auto* recorder = trained.recorder()) recorder->leaf(EventKind::reduce, "all-reduce gradients", tag, start);
}

/// Runs in the compute thread of a replica that has seen all its micro-batches. Each rank that trains the stage commits the statistics of
/// all ranks.
void StepRunner::share_statistics(StageReplica& replica) {
  const Tensors seen = replica.take_statistics();
  for (const int rank : graph_.ranks_training(replica.stage()))
    if (rank != graph_.ranks()->group().rank())
      exchange_->send(RankExchange::Of::statistics, replica.stage(), replica.replica(), rank, seen);
  replica.add_statistics(seen);
}

/// Gives the replica of a stage that is trained the statistics that other ranks' replicas saw.
void StepRunner::receive_statistics(StageReplica& trained) {
  const int stage = trained.stage();
  for (int r = 0; r < static_cast<int>(graph_.replicas(stage).size()); ++r)
    if (!graph_.replicas(stage)[as_index(r)])
      trained.add_statistics(exchange_->receive(RankExchange::Of::statistics, stage, r, graph_.rank_of(stage, r)));
}

/// Runs in the compute thread of a stage's first replica, when its gradients are final. The gradients of tied weights go to the ranks that
/// train these weights and do not have the gradients.
void StepRunner::send_tied_gradients(const StageReplica& first) {
  const std::vector<int> have = graph_.ranks_training(first.stage());
  for (const auto& [name, weight] : tied_.all())
    for (const TiedWeights::Copy& copy : weight.copies) {
      if (copy.stage != first.stage()) continue;
      for (const int rank : graph_.ranks_training(weight.stage))
        if (std::ranges::find(have, rank) == have.end()) exchange_->send_tied(true, weight.number, copy.stage, rank, copy.tensor.grad());
    }
}

std::vector<double> StepRunner::sum_over_ranks(std::vector<double> own) {
  return exchange_ ? exchange_->sum_of(own) : own;
}

/// Every rank gets the outputs of the last stage.
void StepRunner::share_evaluated() {
  const int last = graph_.plan().num_stages() - 1;
  for (std::size_t m = 0; m < evaluated_.size(); ++m)
    if (!parts_.empty(static_cast<int>(m)))
      evaluated_[m] =
          exchange_->from_one(graph_.rank_of(last, replica_of(graph_.plan().stages.back(), static_cast<int>(m))), evaluated_[m]);
}

std::vector<Tensors> StepRunner::on_first_rank(const Tensors& own) {
  return exchange_ ? exchange_->to_one(0, own) : std::vector<Tensors>{own};
}

Tensors StepRunner::of_stage_everywhere(int stage, const Tensors& own) {
  return exchange_ ? exchange_->from_one(graph_.rank_of(stage, 0), own) : own;
}

}  // namespace mptune::tuner
