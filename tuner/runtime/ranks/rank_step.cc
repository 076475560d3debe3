#include "tuner/runtime/ranks/rank_step.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <set>
#include <thread>
#include <utility>

#include "profiler/base/index.h"

namespace mptune::tuner {

namespace {

Tensors tensors_of(const std::vector<NamedTensor>& named) {
  Tensors tensors;
  for (const NamedTensor& each : named) tensors.push_back(each.tensor);
  return tensors;
}

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
    const at::Tensor& parameter = parameters[p];
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

RankStep::RankStep(RunningStep& step, const TiedWeights& tied)
    : step_(step), graph_(step.graph), tied_(tied), values_(graph_.stages().size()), arrived_(graph_.stages().size()), receivers_(graph_) {
  if (graph_.ranks() == nullptr) return;
  exchange_.emplace(graph_);
  gets_values_ = graph_.has_replicas() || !tied_.empty();
}

void RankStep::begin(bool evaluates) {
  values_are_here_ = !gets_values_;
  for (Arrived& arrived : arrived_) {
    arrived.replica = -1;
    arrived.gradients.clear();
  }
  receivers_.begin(step_.parts, !evaluates);
}

void RankStep::meanwhile(bool evaluates) {
  if (gets_values_) receive_values(evaluates);
  if (exchange_ && !evaluates) receive_gradients();
}

/// Returns the first replica of a stage on each rank that has one and does not train it.
std::vector<int> RankStep::replicas_elsewhere(int stage) const {
  std::vector<int> first_of_rank;
  const std::vector<int> training = graph_.ranks_training(stage);
  std::set<int> ranks(training.begin(), training.end());
  for (int r = 0; r < static_cast<int>(graph_.replicas(stage).size()); ++r)
    if (ranks.insert(graph_.rank_of(stage, r)).second) first_of_rank.push_back(r);
  return first_of_rank;
}

/// Returns the first replica of a stage here, -1 for none.
int RankStep::replica_here(int stage) const {
  const BoundGraph::Replicas& replicas = graph_.replicas(stage);
  const auto here = std::ranges::find_if(replicas, [](const auto& replica) { return replica != nullptr; });
  return here == replicas.end() ? -1 : static_cast<int>(here - replicas.begin());
}

void RankStep::send_values(const StageReplica& first, bool buffers) {
  if (!exchange_) return;
  const int stage = first.stage();
  for (const int r : replicas_elsewhere(stage)) {
    const int rank = graph_.rank_of(stage, r);
    exchange_->send(RankExchange::Of::parameters, stage, r, rank, tensors_of(first.named_parameters()));
    if (buffers) exchange_->send(RankExchange::Of::buffers, stage, r, rank, tensors_of(first.named_buffers()));
  }
  send_tied_values(stage);
}

void RankStep::send_tied_values(int stage) {
  const std::vector<int> training = graph_.ranks_training(stage);
  for (const auto& [name, weight] : tied_.all()) {
    if (weight.stage != stage) continue;
    std::set<int> ranks(training.begin(), training.end());
    for (const TiedWeights::Copy& copy : weight.copies)
      for (int r = 0; r < static_cast<int>(graph_.replicas(copy.stage).size()); ++r)
        if (const int rank = graph_.rank_of(copy.stage, r); ranks.insert(rank).second)
          exchange_->send_tied(false, weight.number, copy.stage, rank, weight.first);
  }
}

void RankStep::receive_values(bool buffers) {
  try {
    for (int stage = 0; stage < graph_.plan().num_stages(); ++stage) receive_values_of(stage, buffers);
    receive_tied_values();
  } catch (...) {
    (void)graph_.fail(std::current_exception());
  }
  values_are_here_ = true;
  graph_.ring_all();
}

void RankStep::receive_values_of(int stage, bool buffers) {
  const int r = replica_here(stage);
  if (r <= 0 || graph_.trained(stage) != nullptr) return;
  const auto charged = graph_.device(graph_.device_of(*graph_.replicas(stage)[as_index(r)])).charge_thread();
  const int rank = graph_.rank_of(stage, 0);
  Values& values = values_[as_index(stage)];
  keep(exchange_->receive(RankExchange::Of::parameters, stage, r, rank), values.parameters);
  if (buffers) keep(exchange_->receive(RankExchange::Of::buffers, stage, r, rank), values.buffers);
}

void RankStep::receive_tied_values() {
  for (const auto& [name, weight] : tied_.all()) {
    const auto here = std::ranges::find_if(weight.copies, [&](const auto& copy) { return replica_here(copy.stage) >= 0; });
    if (graph_.trained(weight.stage) != nullptr || here == weight.copies.end()) continue;
    keep({exchange_->receive_tied(false, weight.number, here->stage, graph_.rank_of(weight.stage, 0))}, tied_values_[weight.number]);
  }
}

void RankStep::await_values(int device) {
  if (!step_.wait_unless_failed(device, [this] { return values_are_here_.load(); })) throw StepCancelled();
}

void RankStep::send_gradients_of(StageReplica& replica) {
  const int stage = replica.stage(), r = replica.replica();
  if (!exchange_ || graph_.all_reduces(stage)) return;
  const std::vector<int> ranks = graph_.ranks_training(stage);
  for (std::size_t share = 0; share < ranks.size(); ++share)
    if (ranks[share] != own_rank())
      exchange_->send_gradients(RankExchange::Of::gradients, stage, r, ranks[share],
                                rows_of(gradients_of(replica), static_cast<int>(share), static_cast<int>(ranks.size())));
  if (graph_.trained(stage) != nullptr || !replica.has_batch_statistics()) return;
  exchange_->send(RankExchange::Of::statistics, stage, r, graph_.rank_of(stage, 0), replica.take_statistics());
}

/// Runs while devices compute: gradients that arrive before this rank's own are ready need not be waited for. The last stage is the first
/// one whose backwards end.
void RankStep::receive_gradients() {
  try {
    for (int stage = graph_.plan().num_stages() - 1; stage >= 0; --stage) {
      const StageReplica* const trained = graph_.trained(stage);
      if (trained != nullptr && !graph_.all_reduces(stage) && !receive_gradients_of(*trained)) return;
    }
  } catch (...) {
    (void)graph_.fail(std::current_exception());
  }
}

/// Returns false if the step has failed.
bool RankStep::receive_gradients_of(const StageReplica& trained) {
  const int stage = trained.stage();
  const BoundGraph::Replicas& replicas = graph_.replicas(stage);
  const auto charged = graph_.device(graph_.device_of(trained)).charge_thread();
  Arrived& arrived = arrived_[as_index(stage)];
  for (int r = 0; r < static_cast<int>(replicas.size()); ++r) {
    if (replicas[as_index(r)]) continue;
    while (arrived.replica >= 0 && !graph_.failed()) std::this_thread::sleep_for(kUntilAdded);
    if (graph_.failed()) return false;
    arrived.gradients = exchange_->receive_gradients(RankExchange::Of::gradients, stage, r, graph_.rank_of(stage, r));
    arrived.replica = r;
    graph_.ring_all();
  }
  return true;
}

Tensors RankStep::await_gradients_of(int stage, int replica) {
  Arrived& arrived = arrived_[as_index(stage)];
  if (!step_.wait_unless_failed(graph_.device_of(*graph_.trained(stage)), [&] { return arrived.replica == replica; }))
    throw StepCancelled();
  Tensors gradients = std::move(arrived.gradients);
  arrived.gradients.clear();
  arrived.replica = -1;
  return gradients;
}

void RankStep::sum_shares(StageReplica& trained) {
  const RecordedWork recorded(step_, trained, EventKind::reduce, "sum gradients");
  const int stage = trained.stage();
  const std::vector<int> ranks = graph_.ranks_training(stage);
  const int shares = static_cast<int>(ranks.size());
  const int own = static_cast<int>(std::ranges::find(ranks, own_rank()) - ranks.begin());
  const BoundGraph::Replicas& replicas = graph_.replicas(stage);
  Tensors sums;
  for (int r = 0; r < static_cast<int>(replicas.size()); ++r) {
    const StageReplica* here = replicas[as_index(r)].get();
    add(here != nullptr ? rows_of(gradients_of(*here), own, shares) : await_gradients_of(stage, r), trained.trained(),
        here == &trained ? Into::gradient : Into::sum, sums);
  }
  for (const int rank : ranks)
    if (rank != own_rank()) exchange_->send_gradients(RankExchange::Of::sums, stage, 0, rank, sums);
  const auto sums_of = [&](int share) {
    if (share == own) return sums;
    const Tensors places = rows_of(gradients_of(trained), share, shares);
    return exchange_->receive_gradients(RankExchange::Of::sums, stage, 0, ranks[as_index(share)], places);
  };
  for (int share = 0; share < shares; ++share) set_rows(trained.trained(), sums_of(share), share, shares);
}

void RankStep::all_reduce(StageReplica& trained) {
  const RecordedWork recorded(step_, trained, EventKind::reduce, "all-reduce gradients");
  exchange_->all_reduce(trained.stage(), trained.trained());
}

void RankStep::share_statistics(StageReplica& replica) {
  const Tensors seen = replica.take_statistics();
  for (const int rank : graph_.ranks_training(replica.stage()))
    if (rank != own_rank()) exchange_->send(RankExchange::Of::statistics, replica.stage(), replica.replica(), rank, seen);
  replica.add_statistics(seen);
}

void RankStep::receive_statistics(StageReplica& trained) {
  if (!exchange_) return;
  const int stage = trained.stage();
  for (int r = 0; r < static_cast<int>(graph_.replicas(stage).size()); ++r)
    if (!graph_.replicas(stage)[as_index(r)])
      trained.add_statistics(exchange_->receive(RankExchange::Of::statistics, stage, r, graph_.rank_of(stage, r)));
}

void RankStep::send_tied_gradients(const StageReplica& first) {
  if (!exchange_) return;
  const std::vector<int> have = graph_.ranks_training(first.stage());
  for (const auto& [name, weight] : tied_.all())
    for (const TiedWeights::Copy& copy : weight.copies) {
      if (copy.stage != first.stage()) continue;
      for (const int rank : graph_.ranks_training(weight.stage))
        if (std::ranges::find(have, rank) == have.end()) exchange_->send_tied(true, weight.number, copy.stage, rank, copy.tensor.grad());
    }
}

at::Tensor RankStep::receive_tied_gradient(const TiedWeights::Weight& weight, const TiedWeights::Copy& copy) {
  return exchange_->receive_tied(true, weight.number, copy.stage, graph_.rank_of(copy.stage, 0));
}

std::vector<double> RankStep::sum_of(const std::vector<double>& own) {
  return exchange_ ? exchange_->sum_of(own) : own;
}

Tensors RankStep::from_replica(int stage, int replica, const Tensors& own) {
  return exchange_ ? exchange_->from_one(graph_.rank_of(stage, replica), own) : own;
}

std::vector<Tensors> RankStep::on_first_rank(const Tensors& own) {
  return exchange_ ? exchange_->to_one(0, own) : std::vector<Tensors>{own};
}

Tensors RankStep::from_first_rank(const Tensors& own) {
  return exchange_ ? exchange_->from_one(0, own) : own;
}

}  // namespace mptune::tuner
