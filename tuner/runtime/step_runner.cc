#include "tuner/runtime/step_runner.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "profiler/base/activity.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/collect/nvtx_range.h"
#include "profiler/kernels/replace_slow_kernels.h"
#include "profiler/model/in_memory_format.h"

namespace mptune::tuner {

namespace {

/// How many actions a GPU's host launches ahead of what the GPU has computed, and of what it has sent (see planner/cost/boundary_memory.h).
constexpr std::size_t kMostAhead = 2;
constexpr std::size_t kMostUnsent = 3;

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

const char* words_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return "forward";
    case ActionKind::backward:
      return "backward";
    case ActionKind::backward_input:
      return "backward (inputs)";
    case ActionKind::backward_weight:
      return "backward (weights)";
  }
  return "";
}

/// Returns "stage 1, forward of micro-batch 2, layer 'fc'".
std::string place_of(const BoundAction& bound) {
  const Action& action = bound.action;
  const std::string layers = bound.stage->last_layers();
  return "stage " + std::to_string(action.stage) + ", " + words_of(action.kind) + " of micro-batch " + std::to_string(action.microbatch) +
         (layers.empty() ? "" : ", " + layers);
}

/// Returns the tensor on the host, without a gradient, which nobody reads. A tensor of inference mode can't be saved for a backward.
at::Tensor as_data(const at::Tensor& tensor) {
  const c10::InferenceMode off(false);
  const at::Tensor on_host = tensor.cpu();
  return on_host.is_inference() ? on_host.clone() : on_host.detach();
}

}  // namespace

StepRunner::StepRunner(BoundGraph& graph, std::uint64_t seed)
    : graph_(graph),
      tied_(graph),
      help_(graph),
      seed_(seed),
      has_copies_(graph.has_replicas() || !tied_.empty()),
      values_(graph.stages().size()),
      updates_(graph.stages().size()),
      ends_(graph.stages().size()),
      arrived_(graph.stages().size()),
      inputs_(graph),
      receivers_(graph) {
  if (graph.ranks() != nullptr) exchange_.emplace(graph);
}

Tensors StepRunner::on_host(const Tensors& inputs) const {
  if (at::autocast::is_autocast_enabled(at::kCPU) || at::autocast::is_autocast_enabled(at::kCUDA))
    throw Error("autocast is on in the calling thread, but layers run in threads of their own", "Pipeline::step",
                "call it outside of autocast, with a plan in bf16 or fp16 (--precision)");
  Tensors own;
  for (const at::Tensor& input : inputs) own.push_back(profiler::in_memory_format(as_data(input), graph_.plan().options.memory_format));
  return own;
}

StepResult StepRunner::run(const Tensors& inputs, const at::Tensor& target, Accumulate accumulate) {
  const profiler::NvtxRange range("step", steps_);
  const auto start = profiler::SteadyClock::now();
  Tensors own_inputs = on_host(inputs);
  const at::Tensor own_target = target.defined() ? as_data(target) : target;
  parts_ = BatchParts(graph_.plan(), static_cast<int>(inputs.front().size(0)));
  weights_ = graph_.loss().weights_of_parts(own_target, parts_.sizes());
  inputs_.begin(std::move(own_inputs), own_target, parts_);
  begin_ends();
  run_devices(false, [&](int device) {
    run_row(device, accumulate);
    finish(device);
  });
  StepResult result;
  result.loss = take_loss();
  result.seconds = std::chrono::duration<double>(profiler::SteadyClock::now() - start).count();
  ++steps_;
  return result;
}

std::vector<Tensors> StepRunner::evaluate(const Tensors& inputs) {
  finish_update();
  Tensors own_inputs = on_host(inputs);
  parts_ = BatchParts(graph_.plan(), static_cast<int>(inputs.front().size(0)));
  inputs_.begin(std::move(own_inputs), {}, parts_);
  evaluated_.assign(parts_.sizes().size(), {});
  run_devices(true, [this](int device) { evaluate_row(device); });
  if (exchange_) share_evaluated();
  std::vector<Tensors> outputs = std::move(evaluated_);
  outputs.resize(as_index(std::ranges::count_if(parts_.sizes(), [](int size) { return size > 0; })));
  return outputs;
}

void StepRunner::run_devices(bool evaluates, const std::function<void(int device)>& work) {
  running_ = true;
  failed_at_.clear();
  const bool gets_values = exchange_ && has_copies_;
  values_are_here_ = !gets_values;
  graph_.set_shapes(parts_.samples(), !evaluates);
  receivers_.begin(parts_, !evaluates);
  graph_.for_devices(work, [&] {
    inputs_.stage();
    if (gets_values) receive_values(evaluates);
    if (exchange_ && !evaluates) receive_gradients();
  });
  receivers_.end();
  running_ = false;
  const auto error = graph_.take_error();
  inputs_.end();
  if (!error) return;
  graph_.recover();
  std::rethrow_exception(error);
}

double StepRunner::take_loss() {
  const Plan& plan = graph_.plan();
  std::vector<double> losses(as_index(plan.num_microbatches()));
  for (int m = 0; m < plan.num_microbatches(); ++m) {
    const auto& last = graph_.stages().back()[as_index(replica_of(plan.stages.back(), m))];
    if (last && !parts_.empty(m)) losses[as_index(m)] = last->take_loss(m);
  }
  double loss = 0;
  for (const double of_microbatch : sum_over_ranks(losses)) loss += of_microbatch;
  return loss;
}

void StepRunner::for_replicas(int device, const std::function<void(StageReplica&)>& work) {
  for (const BoundGraph::Replicas& replicas : graph_.stages())
    for (const auto& replica : replicas)
      if (replica && graph_.device_of(*replica) == device) work(*replica);
}

void StepRunner::run_row(int device, Accumulate accumulate) {
  const profiler::ReplaceSlowKernels kernels(graph_.plan().options.replace_slow_kernels);
  begin_row(device, accumulate);
  std::int64_t growth = 0;  // the most that an action has added to the device's memory
  std::deque<Launched> launched;
  for (const BoundAction& bound : graph_.row(device)) {
    keep_lead(launched);
    if (bound.begins_replica && !has_copies_) prepare(*bound.stage, accumulate);
    const auto start = profiler::SteadyClock::now();
    const std::int64_t before = graph_.device(device).current_bytes();
    {
      const profiler::NvtxRange range(bound.text.c_str(), steps_ << 32 | bound.action.stage << 16 | bound.action.microbatch);
      const TagScope scope(gpus_, tag_of(bound), kind_of(bound.action));
      run_named(bound, &StepRunner::run_action);
    }
    if (bound.ends_replica) end_replica(*bound.stage);
    launched.push_back({&bound, graph_.device(device).now()});
    if (auto* recorder = bound.stage->recorder()) {
      recorder->range(bound.text.c_str(), tag_of(bound), start);
      collector_->add_memory(device, graph_.device(device).current_bytes());
    }
    growth = std::max(growth, graph_.device(device).current_bytes() - before);
    if (bound.action.kind == ActionKind::backward_input) keep_to_cap(device, growth);
  }
  send_losses(device);
}

/// A GPU's host launches no action before the GPU has computed the action kMostAhead before it, and has sent what the action kMostUnsent
/// before it sends. Otherwise it would launch the whole step at once. Memory of a message is free again only when it has been computed and
/// copied, so that all messages of a step would lie in the GPU's memory.
void StepRunner::keep_lead(std::deque<Launched>& launched) {
  if (launched.size() >= kMostAhead) {
    const Launched& computed = launched[launched.size() - kMostAhead];
    naming_place(*computed.action, [&] { wait_for(computed.end); });
  }
  if (launched.size() < kMostUnsent) return;
  const BoundAction& sent = *launched.front().action;
  if (launched.front().end) naming_place(sent, [&] { await_sent(sent); });
  launched.pop_front();
}

void StepRunner::send_losses(int device) {
  for (const auto& last : graph_.stages().back()) {
    if (!last || graph_.device_of(*last) != device) continue;
    const TagScope scope(gpus_, tag_of(*last), EventKind::forward);
    last->send_losses();
  }
}

/// Near the device's memory cap, weight gradients do not wait for their place in the row, because they hold inputs and gradients until
/// then.
void StepRunner::keep_to_cap(int device, std::int64_t growth) {
  const Device& owner = graph_.device(device);
  // The growth counts twice, because an action needs workspace besides what it leaves.
  if (owner.memory_cap() <= 0 || owner.current_bytes() + 2 * growth <= owner.memory_cap()) return;
  for_replicas(device, [&](StageReplica& replica) {
    if (auto* recorder = replica.recorder()) recorder->begin(tag_of(replica));
    replica.backward_all_weights();
  });
}

void StepRunner::run_named(const BoundAction& bound, void (StepRunner::*work)(const BoundAction&)) {
  bound.stage->begin_action();
  naming_place(bound, [&] { (this->*work)(bound); });
}

/// Says where the step failed. The exception keeps its type: callers recognise out of memory by it.
void StepRunner::naming_place(const BoundAction& bound, const std::function<void()>& work) {
  try {
    work();
  } catch (const StepCancelled&) {
    throw;
  } catch (...) {
    if (graph_.fail(std::current_exception())) failed_at_ = place_of(bound);
    throw;
  }
}

void StepRunner::run_action(const BoundAction& bound) {
  for (const BoundOffload& offload : bound.frees) free(offload, bound);
  for (const BoundOffload& offload : bound.fetches) fetch(offload);
  const bool backward_of_nothing = bound.action.kind == ActionKind::backward || bound.action.kind == ActionKind::backward_input;
  if (parts_.empty(bound.action.microbatch) && backward_of_nothing) return bound.stage->skip_backward(bound.action.microbatch);
  if (parts_.empty(bound.action.microbatch) && bound.action.kind == ActionKind::forward) return;
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

void StepRunner::forward(const BoundAction& bound) {
  const int m = bound.action.microbatch;
  Device& device = graph_.device(graph_.device_of(*bound.stage));
  Tensors given = receive_inputs(bound);
  if (auto* recorder = bound.stage->recorder()) recorder->begin(tag_of(bound));
  at::Tensor target;
  if (bound.computes_loss) target = inputs_.target_of(m);
  if (target.defined()) target = device.from_host(target);
  const bool offload = bound.host != nullptr;
  send_outputs(bound, bound.stage->forward(context_of(m), std::move(given), target, weights_[as_index(m)], offload));
  if (offload) bound.host->send({.gradient = false, .microbatch = m}, bound.stage->saved_activations(m));
}

RunContext StepRunner::context_of(int microbatch) const {
  RunContext context;
  context.seed = seed_;
  context.step = steps_;
  context.microbatch = microbatch;
  context.first_sample = parts_.first(microbatch);
  context.samples = parts_.size(microbatch);
  return context;
}

/// Runs the forwards of a row in their order. They wait only for forwards, so they end as those of a step do.
void StepRunner::evaluate_row(int device) {
  const profiler::ReplaceSlowKernels kernels(graph_.plan().options.replace_slow_kernels);
  const at::NoGradGuard no_grad;
  if (has_copies_) give_values(device, true);
  for_replicas(device, [&](StageReplica& replica) {
    if (has_copies_) refresh(replica, device);
    refresh_buffers(replica);
  });
  std::deque<Launched> launched;
  for (const BoundAction& bound : graph_.row(device)) {
    if (bound.action.kind != ActionKind::forward || parts_.empty(bound.action.microbatch)) continue;
    keep_lead(launched);
    const TagScope scope(gpus_, tag_of(bound), EventKind::forward);
    run_named(bound, &StepRunner::evaluate_action);
    launched.push_back({&bound, graph_.device(device).now()});
  }
}

void StepRunner::evaluate_action(const BoundAction& bound) {
  const int m = bound.action.microbatch;
  Tensors given = receive_inputs(bound);
  if (auto* recorder = bound.stage->recorder()) recorder->begin(tag_of(bound));
  RunContext context = context_of(m);
  context.evaluating = true;
  const Tensors outputs = bound.stage->evaluate(context, std::move(given));
  if (!bound.computes_loss) return send_outputs(bound, outputs);
  for (const at::Tensor& output : outputs) evaluated_[as_index(m)].push_back(output.cpu());
}

void StepRunner::backward(const BoundAction& bound) {
  const int m = bound.action.microbatch;
  restore(bound);
  if (auto* recorder = bound.stage->recorder()) recorder->begin(tag_of(bound));
  // Recomputation needs no gradient, so it runs while the gradient is on its way.
  bound.stage->prepare_backward(m);
  Tensors gradients = receive_gradients(bound);
  if (auto* recorder = bound.stage->recorder()) recorder->begin(tag_of(bound));
  const bool split = bound.action.kind == ActionKind::backward_input;
  send_gradients(bound, split ? bound.stage->backward_input(m, std::move(gradients)) : bound.stage->backward(m, std::move(gradients)));
}

}  // namespace mptune::tuner
