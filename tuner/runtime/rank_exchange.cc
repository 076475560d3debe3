#include "tuner/runtime/rank_exchange.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "profiler/base/index.h"

namespace mptune::tuner {
namespace {

constexpr int kKinds = 4;  // of Of

Tensors host_tensors(const Tensors& tensors) {
  Tensors on_host;
  for (const at::Tensor& tensor : tensors) on_host.push_back(tensor.defined() ? tensor.detach().cpu() : tensor);
  return on_host;
}

}  // namespace

RankExchange::RankExchange(BoundGraph& graph) : graph_(graph), streams_(*graph.ranks()), after_links_(graph.tags_of_links()) {
  for (const Stage& stage : graph.plan().stages) most_replicas_ = std::max(most_replicas_, static_cast<int>(stage.devices.size()));
}

// Tags: two of all ranks, then those of replicas, then those of tied weights.
int RankExchange::tag_of(Of what, int stage, int replica) const {
  return after_links_ + 2 + (stage * most_replicas_ + replica) * kKinds + static_cast<int>(what);
}

int RankExchange::tag_of_tied(bool gradient, int weight, int stage) const {
  const int stages = graph_.plan().num_stages();
  return tag_of(Of::parameters, stages, 0) + 2 * (weight * stages + stage) + (gradient ? 1 : 0);
}

void RankExchange::send(Of what, int stage, int replica, int to, const Tensors& tensors) {
  streams_.send(to, tag_of(what, stage, replica), 0, host_tensors(tensors));
}

Tensors RankExchange::receive(Of what, int stage, int replica, int from) {
  return streams_.receive(from, tag_of(what, stage, replica), 0);
}

void RankExchange::send_tied(bool gradient, int weight, int stage, int to, const at::Tensor& tensor) {
  streams_.send(to, tag_of_tied(gradient, weight, stage), 0, host_tensors({tensor}));
}

at::Tensor RankExchange::receive_tied(bool gradient, int weight, int stage, int from) {
  return streams_.receive(from, tag_of_tied(gradient, weight, stage), 0).at(0);
}

std::vector<double> RankExchange::sum_of(const std::vector<double>& own) {
  std::vector<double> sum(own.size());
  for (const std::vector<double>& of_rank : streams_.exchange(after_links_, own))
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += of_rank.at(i);
  return sum;
}

Tensors RankExchange::from_one(int from, const Tensors& own) {
  RankGroup& group = streams_.group();
  const int tag = after_links_ + 1;
  if (group.rank() != from) return streams_.receive(from, tag, 0);
  const Tensors sent = host_tensors(own);
  for (int other = 0; other < group.size(); ++other)
    if (other != from) streams_.send(other, tag, 0, sent);
  return sent;
}

std::vector<Tensors> RankExchange::to_one(int to, const Tensors& own) {
  RankGroup& group = streams_.group();
  const int tag = after_links_ + 1;
  if (group.rank() != to) {
    streams_.send(to, tag, 0, host_tensors(own));
    return {};
  }
  std::vector<Tensors> all;
  for (int other = 0; other < group.size(); ++other) all.push_back(other == to ? host_tensors(own) : streams_.receive(other, tag, 0));
  return all;
}

}  // namespace mptune::tuner
