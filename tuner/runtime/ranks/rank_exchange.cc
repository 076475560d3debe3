#include "tuner/runtime/ranks/rank_exchange.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "profiler/base/activity.h"
#include "profiler/base/index.h"
#include "tuner/runtime/between/tensor_text.h"

namespace mptune::tuner {
namespace {

constexpr int kKinds = 6;  // of Of
constexpr const char* kWaiting = "waiting for another rank";

Tensors host_tensors(const Tensors& tensors) {
  Tensors on_host;
  for (const at::Tensor& tensor : tensors) on_host.push_back(tensor.defined() ? tensor.detach().cpu() : tensor);
  return on_host;
}

/// In which the gradients of a parameter are added up.
at::ScalarType type_of_sum(const at::Tensor& parameter) {
  const at::ScalarType type = parameter.scalar_type();
  return type == at::kDouble || type == at::kComplexDouble ? at::kDouble : at::kFloat;
}

at::Tensor real_numbers(const at::Tensor& tensor) {
  return tensor.is_complex() ? at::view_as_real(tensor) : tensor;
}

/// Gradients that are added up in one type, as real numbers.
Tensors gradients_summed_in(at::ScalarType type, const Tensors& parameters) {
  Tensors gradients;
  for (const at::Tensor& parameter : parameters)
    if (type_of_sum(parameter) == type && parameter.grad().defined() && parameter.numel() > 0)
      gradients.push_back(real_numbers(parameter.grad()));
  return gradients;
}

/// Places for such tensors in `all`, one behind the other.
Tensors places_in(const at::Tensor& all, const Tensors& tensors) {
  Tensors places;
  std::int64_t first = 0;
  for (const at::Tensor& tensor : tensors) {
    places.push_back(all.narrow(0, first, tensor.numel()).view(tensor.sizes()));
    first += tensor.numel();
  }
  return places;
}

/// What another rank has sent, where it is of the size and type of this one's.
at::Tensor like(const at::Tensor& own, const at::Tensor& received) {
  if (received.sizes() != own.sizes() || received.scalar_type() != own.scalar_type()) refuse_message();
  return received;
}

std::int64_t count_in(const Tensors& tensors) {
  std::int64_t count = 0;
  for (const at::Tensor& tensor : tensors) count += tensor.numel();
  return count;
}

}  // namespace

RankExchange::RankExchange(BoundGraph& graph) : graph_(graph), streams_(*graph.ranks()), after_links_(graph.first_free_tag()) {
  for (const Stage& stage : graph.plan().stages) most_replicas_ = std::max(most_replicas_, static_cast<int>(stage.devices.size()));
  // All ranks connect in order of the stages, which is why it is done before the first step.
  at::Tensor nothing = at::zeros({1});
  nothing.mutable_grad() = at::zeros({1});
  for (int stage = 0; stage < graph.plan().num_stages(); ++stage)
    if (graph.all_reduces(stage) && graph.trained(stage) != nullptr && graph.direct_sum(stage) == nullptr) all_reduce(stage, {nothing});
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

void RankExchange::send_gradients(Of what, int stage, int replica, int to, const Tensors& gradients) {
  streams_.send_in_place(to, tag_of(what, stage, replica), 0, host_tensors(gradients));
}

Tensors RankExchange::receive_gradients(Of what, int stage, int replica, int from, const Tensors& places) {
  return streams_.receive_in_place(from, tag_of(what, stage, replica), 0, places);
}

// Where a rank had no micro-batch, or a layer was not used.
void RankExchange::fill_gradients(int stage, const Tensors& parameters) {
  at::Tensor which = at::zeros({static_cast<std::int64_t>(parameters.size())}, at::kBool);
  for (std::size_t i = 0; i < parameters.size(); ++i) which[static_cast<std::int64_t>(i)] = parameters[i].grad().defined();
  const std::vector<int> ranks = graph_.ranks_training(stage);
  const int own = streams_.group().rank();
  for (const int other : ranks)
    if (other != own) send(Of::which_gradients, stage, 0, other, {which});
  for (const int other : ranks)
    if (other != own) which = which.logical_or(like(which, streams_.receive_one(other, tag_of(Of::which_gradients, stage, 0), 0)));
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (!parameters[i].grad().defined() && which[static_cast<std::int64_t>(i)].item<bool>())
      at::Tensor(parameters[i]).mutable_grad() = at::zeros_like(parameters[i]);
}

// What ranks say about their gradients first has a second use: who is late or has ended is missed there, where it has a name and the wait
// can be given up. Of Gloo's all-reduce neither is true. Over NCCL the sum is part of the device's work.
void RankExchange::all_reduce(int stage, const Tensors& parameters) {
  fill_gradients(stage, parameters);
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const Tensors gradients = gradients_summed_in(type, parameters);
    if (gradients.empty()) continue;
    profiler::GpuCommunicator* const direct = graph_.direct_sum(stage);
    const at::Device place = direct != nullptr ? gradients[0].device() : at::Device(at::kCPU);
    const at::Tensor sum = at::empty({count_in(gradients)}, at::TensorOptions(type).device(place));
    const Tensors places = places_in(sum, gradients);
    for (std::size_t i = 0; i < gradients.size(); ++i) places[i].copy_(gradients[i]);
    if (direct != nullptr)
      direct->all_reduce(sum);
    else
      streams_.group().all_reduce(graph_.ranks_training(stage), stage, sum);
    for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i].copy_(places[i]);
  }
}

void RankExchange::send_tied(bool gradient, int weight, int stage, int to, const at::Tensor& tensor) {
  streams_.send(to, tag_of_tied(gradient, weight, stage), 0, host_tensors({tensor}));
}

at::Tensor RankExchange::receive_tied(bool gradient, int weight, int stage, int from) {
  return streams_.receive_one(from, tag_of_tied(gradient, weight, stage), 0);
}

std::vector<double> RankExchange::sum_of(const std::vector<double>& own) {
  std::vector<double> sum(own.size());
  for (const std::vector<double>& of_rank : streams_.exchange(after_links_, own))
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += of_rank[i];
  return sum;
}

Tensors RankExchange::from_one(int from, const Tensors& own) {
  RankGroup& group = streams_.group();
  const int tag = after_links_ + 1;
  if (group.rank() != from) {
    const Activity activity(kWaiting, {}, kWaitsForOthers);
    return streams_.receive(from, tag, 0);
  }
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
  const Activity activity(kWaiting, {}, kWaitsForOthers);
  std::vector<Tensors> all;
  for (int other = 0; other < group.size(); ++other) all.push_back(other == to ? host_tensors(own) : streams_.receive(other, tag, 0));
  return all;
}

}  // namespace mptune::tuner
