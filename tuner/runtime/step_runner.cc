#include "tuner/runtime/step_runner.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "profiler/base/index.h"
#include "profiler/collect/nvtx_range.h"

namespace mptune::tuner {

namespace {

EventKind kind_of(const Action& action) {
  switch (action.kind) {
    case ActionKind::forward:
      return EventKind::forward;
    case ActionKind::backward:
      return EventKind::backward;
    case ActionKind::backward_input:
      return EventKind::backward_input;
    case ActionKind::backward_weight:
      return EventKind::backward_weight;
  }
  return EventKind::host;
}

}  // namespace

// The caller may change the parameters of first replicas before the first step, so copies are refreshed in that step, too.
StepRunner::StepRunner(BoundGraph& graph, std::uint64_t seed)
    : graph_(graph), tied_(graph), help_(graph), seed_(seed), refresh_copies_(graph.has_replicas() || !tied_.empty()) {}

StepResult StepRunner::run(const Tensors& inputs, const at::Tensor& target, Accumulate accumulate) {
  const profiler::NvtxRange range("step", steps_);
  const auto start = profiler::SteadyClock::now();
  inputs_.clear();
  for (const at::Tensor& input : inputs) inputs_.push_back(input.cpu());
  target_ = target.defined() ? target.cpu() : target;
  run_phases(accumulate);
  StepResult result;
  result.loss = take_loss();
  refresh_copies_ = graph_.has_replicas() || !tied_.empty();
  result.seconds = std::chrono::duration<double>(profiler::SteadyClock::now() - start).count();
  ++steps_;
  return result;
}

void StepRunner::run_phases(Accumulate accumulate) {
  rows_left_ = static_cast<int>(graph_.devices().size());
  graph_.for_devices([&](int device) {
    run_row(device, accumulate);
    if (--rows_left_ == 0) graph_.ring_all();
    if (help_.takes_part(device)) (void)wait(device, PendingWeights::Size::largest, [this] { return rows_left_ == 0 || graph_.failed(); });
  });
  auto error = graph_.take_error();
  if (!error && (graph_.has_replicas() || graph_.has_batch_statistics())) {
    graph_.for_devices([&](int device) { finish_stages(device); });
    error = graph_.take_error();
  }
  if (!error && !tied_.empty()) {
    graph_.for_devices([&](int device) { sum_tied(device); });
    error = graph_.take_error();
  }
  inputs_.clear();
  target_.reset();
  if (!error) return;
  graph_.recover();
  std::rethrow_exception(error);
}

double StepRunner::take_loss() {
  const Plan& plan = graph_.plan();
  double loss = 0;
  for (int m = 0; m < plan.num_microbatches(); ++m) {
    StageReplica& last = *graph_.stages().back()[as_index(replica_of(plan.stages.back(), m))];
    const TagScope scope(gpus_, {static_cast<int>(steps_), last.stage(), m, -1, last.replica()}, EventKind::forward);  // a GPU copies it
    loss += last.take_loss(m);
  }
  return loss;
}

void StepRunner::for_replicas(int device, const std::function<void(StageReplica&)>& work) {
  for (const BoundGraph::Replicas& replicas : graph_.stages())
    for (const auto& replica : replicas)
      if (graph_.device_of(*replica) == device) work(*replica);
}

void StepRunner::prepare_stages(int device, Accumulate accumulate) {
  const at::NoGradGuard no_grad;
  for_replicas(device, [&](StageReplica& replica) {
    replica.pending_weights().reset();
    replica.clear_gradients_of_copies();
    if (accumulate == Accumulate::no || replica.replica() > 0) replica.clear_gradients();
    if (refresh_copies_) refresh(replica, device);
  });
}

/// Copies the first replica's parameters to another one, and tied weights from the stage that trains them to the stages with copies.
void StepRunner::refresh(StageReplica& replica, int device) {
  if (replica.replica() == 0 && replica.copies().empty()) return;
  const auto start = profiler::SteadyClock::now();
  const Tag tag = tag_of(replica);
  const TagScope scope(gpus_, tag, EventKind::reduce);
  // An optimizer may still be writing the first replica's parameters on a GPU.
  const auto after_first_of = [&](int stage) { graph_.after_caller(device, graph_.device_of(graph_.first(stage))); };
  if (replica.replica() > 0) {
    after_first_of(replica.stage());
    const auto& from = graph_.first(replica.stage()).named_parameters();
    for (std::size_t p = 0; p < from.size(); ++p) at::Tensor(replica.named_parameters()[p].tensor).copy_(from[p].tensor);
  }
  for (const NamedTensor& copy : replica.copies()) {
    const TiedWeights::Weight& weight = tied_.of(copy.name);
    after_first_of(weight.stage);
    at::Tensor(copy.tensor).copy_(weight.first);
  }
  if (auto* recorder = replica.recorder()) recorder->leaf(EventKind::reduce, "refresh parameters", tag, start);
}

void StepRunner::run_row(int device, Accumulate accumulate) {
  prepare_stages(device, accumulate);
  std::int64_t growth = 0;  // most that an action has added to the device's memory
  for (const BoundAction& bound : graph_.row(device)) {
    const auto start = profiler::SteadyClock::now();
    const std::int64_t before = graph_.device(device).current_bytes();
    {
      const profiler::NvtxRange range(bound.text.c_str(), steps_ << 32 | bound.action.stage << 16 | bound.action.microbatch);
      const TagScope scope(gpus_, tag_of(bound), kind_of(bound.action));
      run_action(bound);
    }
    if (auto* recorder = bound.stage->recorder()) {
      recorder->range(bound.text.c_str(), tag_of(bound), start);
      collector_->add_memory(device, graph_.device(device).current_bytes());
    }
    growth = std::max(growth, graph_.device(device).current_bytes() - before);
    if (bound.action.kind == ActionKind::backward_input) keep_to_cap(device, growth);
  }
}

/// Near the device's memory cap, weight gradients do not wait for their place in the row: they hold inputs and gradients.
void StepRunner::keep_to_cap(int device, std::int64_t growth) {
  const Device& owner = graph_.device(device);
  // Twice, because an action needs workspace beside what it leaves.
  if (owner.memory_cap() <= 0 || owner.current_bytes() + 2 * growth <= owner.memory_cap()) return;
  for_replicas(device, [&](StageReplica& replica) {
    if (auto* recorder = replica.recorder()) recorder->begin(tag_of(replica));
    replica.backward_all_weights();
  });
}

void StepRunner::run_action(const BoundAction& bound) {
  switch (bound.action.kind) {
    case ActionKind::forward:
      return forward(bound);
    case ActionKind::backward:
    case ActionKind::backward_input:
      return backward(bound);
    case ActionKind::backward_weight:
      if (auto* recorder = bound.stage->recorder()) recorder->begin(tag_of(bound));
      return bound.stage->backward_weight(bound.action.microbatch);
  }
}

/// Receives a message. A device that helps others meanwhile is idle only after that.
Message StepRunner::await(Channel& channel, MessageTag tag, int device, profiler::SteadyClock::time_point& idle_since) {
  if (!help_.takes_part(device)) return channel.receive(tag);
  std::optional<Message> message;
  const auto helped = wait(device, PendingWeights::Size::smallest, [&] { return (message = channel.try_receive(tag)).has_value(); });
  idle_since = std::max(idle_since, helped);
  return std::move(*message);
}

Tensors StepRunner::receive(Channel& channel, MessageTag tag, const BoundAction& bound) {
  auto* recorder = bound.stage->recorder();
  const int device = graph_.device_of(*bound.stage);
  const bool waits = recorder != nullptr && !channel.arrived(tag);
  auto idle_since = profiler::SteadyClock::now();
  Message message = await(channel, tag, device, idle_since);
  graph_.device(device).after(message.there);
  if (waits) recorder->leaf(EventKind::sync, tag.gradient ? "wait for gradient" : "wait for input", tag_of(bound), idle_since);
  return std::move(message.tensors);
}

void StepRunner::forward(const BoundAction& bound) {
  const Plan& plan = graph_.plan();
  const int m = bound.action.microbatch;
  const std::int64_t samples = plan.microbatch_sizes[as_index(m)], first = graph_.first_sample(m);
  Device& device = graph_.device(graph_.device_of(*bound.stage));
  Tensors given;
  if (bound.front != nullptr)
    given = receive(*bound.front, {false, m}, bound);
  else
    for (const at::Tensor& input : inputs_) given.push_back(device.from_host(input.narrow(0, first, samples)));
  if (auto* recorder = bound.stage->recorder()) recorder->begin(tag_of(bound));
  const RunContext context{seed_, steps_, m, first, samples, false};
  const at::Tensor slice = target_.defined() && bound.back == nullptr ? device.from_host(target_.narrow(0, first, samples)) : at::Tensor();
  Tensors outputs = bound.stage->forward(context, std::move(given), slice, static_cast<double>(samples) / plan.global_batch_size());
  if (bound.back != nullptr) bound.back->send({false, m}, std::move(outputs));
}

void StepRunner::backward(const BoundAction& bound) {
  const int m = bound.action.microbatch;
  if (auto* recorder = bound.stage->recorder()) recorder->begin(tag_of(bound));
  // Recomputation needs no gradient, so it runs while the gradient is on its way.
  bound.stage->prepare_backward(m);
  Tensors gradients = bound.back != nullptr ? receive(*bound.back, {true, m}, bound) : Tensors{};
  if (auto* recorder = bound.stage->recorder()) recorder->begin(tag_of(bound));
  const bool split = bound.action.kind == ActionKind::backward_input;
  gradients = split ? bound.stage->backward_input(m, std::move(gradients)) : bound.stage->backward(m, std::move(gradients));
  if (bound.front != nullptr) bound.front->send({true, m}, std::move(gradients));
}

void StepRunner::finish_stages(int device) {
  const at::NoGradGuard no_grad;
  for (const BoundGraph::Replicas& replicas : graph_.stages()) {
    for (const auto& replica : replicas)
      if (graph_.device_of(*replica) == device) sum_replicas(*replica);
    if (graph_.device_of(*replicas[0]) == device && replicas[0]->has_batch_statistics()) commit_statistics(*replicas[0]);
  }
}

/// Sums the replicas' gradients into the first one's, in order of the replicas. On CPU every replica's thread sums a share of the
/// parameters. On a GPU the first replica's thread sums all: work of another thread on its memory would be on no recorded lane.
void StepRunner::sum_replicas(StageReplica& replica) {
  const auto start = profiler::SteadyClock::now();
  const Tag tag = tag_of(replica);
  const TagScope scope(gpus_, tag, EventKind::reduce);
  const BoundGraph::Replicas& replicas = graph_.replicas(replica.stage());
  const std::size_t summing = replicas[0]->on_gpu() ? 1 : replicas.size();
  const auto share = as_index(replica.replica());
  if (share >= summing || replicas.size() < 2) return;
  const std::vector<at::Tensor>& parameters = replicas[0]->trained();
  for (std::size_t p = share; p < parameters.size(); p += summing)
    for (std::size_t other = 1; other < replicas.size(); ++other) add_gradient(parameters[p], replicas[other]->trained()[p].grad());
  if (auto* recorder = replica.recorder()) recorder->leaf(EventKind::reduce, "sum gradients", tag, start);
}

void StepRunner::commit_statistics(StageReplica& first) {
  const TagScope scope(gpus_, tag_of(first), EventKind::reduce);
  std::vector<StageReplica*> all;
  for (const auto& replica : graph_.replicas(first.stage())) all.push_back(replica.get());
  first.commit_statistics(all);
}

/// Adds the gradients of tied copies to those of the stage that trains the weight, in order of the stages.
void StepRunner::sum_tied(int device) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, weight] : tied_.all()) {
    StageReplica& holder = graph_.first(weight.stage);
    if (graph_.device_of(holder) != device) continue;
    const auto start = profiler::SteadyClock::now();
    const Tag tag = tag_of(holder);
    const TagScope scope(gpus_, tag, EventKind::reduce);
    for (const at::Tensor& copy : weight.copies) add_gradient(weight.first, copy.grad());
    if (auto* recorder = holder.recorder()) recorder->leaf(EventKind::reduce, "sum tied gradients", tag, start);
  }
}

void StepRunner::on_stages(const std::function<void(int stage)>& work) {
  graph_.for_devices([&](int device) {
    for_replicas(device, [&](StageReplica& replica) {
      if (replica.replica() > 0) return;
      const auto start = profiler::SteadyClock::now();
      const Tag tag{static_cast<int>(steps_) - 1, replica.stage(), -1, -1, 0};
      const TagScope scope(gpus_, tag, EventKind::optimizer);
      work(replica.stage());
      if (auto* recorder = replica.recorder()) recorder->leaf(EventKind::optimizer, "optimizer", tag, start);
    });
  });
  if (auto error = graph_.take_error()) {
    graph_.recover();
    std::rethrow_exception(error);
  }
}

}  // namespace mptune::tuner
