#include "tuner/runtime/step/row_runner.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <exception>
#include <string>

#include "profiler/base/index.h"
#include "profiler/model/kernels/replace_slow_kernels.h"
#include "profiler/trace/collect/nvtx_range.h"

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

}  // namespace

void RowRunner::train(int device, Accumulate accumulate) {
  const profiler::ReplaceSlowKernels kernels(graph_.plan().options.replace_slow_kernels);
  begin_row(device, accumulate);
  std::int64_t growth = 0;  // the most that an action has added to the device's memory
  std::deque<Launched> launched;
  for (const BoundAction& bound : graph_.row(device)) {
    keep_lead(launched);
    if (bound.begins_replica && updates_.prepares_in_row()) updates_.prepare(*bound.stage, accumulate);
    const std::int64_t before = graph_.device(device).current_bytes();
    train_action(bound, device);
    launched.push_back({&bound, graph_.device(device).now()});
    growth = std::max(growth, graph_.device(device).current_bytes() - before);
    if (bound.action.kind == ActionKind::backward_input) keep_to_cap(device, growth);
  }
  send_losses(device);
}

void RowRunner::begin_row(int device, Accumulate accumulate) {
  step_.for_replicas(device, [](StageReplica& replica) { replica.pending_weights().reset(); });
  updates_.begin_row(device, accumulate);
  // With fewer micro-batches than replicas, some replicas have nothing to do.
  step_.for_replicas(device, [this](StageReplica& replica) {
    if (replica.replica() >= graph_.plan().num_microbatches()) sums_.end_replica(replica);
  });
}

void RowRunner::train_action(const BoundAction& bound, int device) {
  const auto start = profiler::SteadyClock::now();
  {
    const profiler::NvtxRange range(bound.text.c_str(), step_.number << 32 | bound.action.stage << 16 | bound.action.microbatch);
    const TagScope scope(step_.gpus, step_.tag_of(bound), kind_of(bound.action));
    bound.stage->begin_action();
    naming_place(bound, [&] { run_action(bound); });
  }
  if (bound.ends_replica) sums_.end_replica(*bound.stage);
  bound.stage->recorder().range(bound.text.c_str(), step_.tag_of(bound), start);
  if (step_.collector != nullptr) step_.collector->add_memory(device, graph_.device(device).current_bytes());
}

/// A GPU's host launches no action before the GPU has computed the action kMostAhead before it, and has sent what the action kMostUnsent
/// before it sends. Otherwise it would launch the whole step at once. Memory of a message is free again only when it has been computed and
/// copied, so that all messages of a step would lie in the GPU's memory.
void RowRunner::keep_lead(std::deque<Launched>& launched) {
  if (launched.size() >= kMostAhead) {
    const Launched& computed = launched[launched.size() - kMostAhead];
    naming_place(*computed.action, [&] { wait_for(computed.end); });
  }
  if (launched.size() < kMostUnsent) return;
  const BoundAction& sent = *launched.front().action;
  if (launched.front().end) naming_place(sent, [&] { messages_.await_sent(sent); });
  launched.pop_front();
}

void RowRunner::send_losses(int device) {
  for (const auto& last : graph_.stages().back()) {
    if (!last || graph_.device_of(*last) != device) continue;
    const TagScope scope(step_.gpus, step_.tag_of(*last), EventKind::forward);
    last->send_losses();
  }
}

/// Near the device's memory cap, weight gradients do not wait for their place in the row, because they hold inputs and gradients until
/// then.
void RowRunner::keep_to_cap(int device, std::int64_t growth) {
  const Device& owner = graph_.device(device);
  // The growth counts twice, because an action needs workspace besides what it leaves.
  if (owner.memory_cap() <= 0 || owner.current_bytes() + 2 * growth <= owner.memory_cap()) return;
  step_.for_replicas(device, [&](StageReplica& replica) {
    replica.recorder().begin(step_.tag_of(replica));
    replica.backward_all_weights();
  });
}

/// Says where the step failed. The exception keeps its type: callers recognise out of memory by it.
void RowRunner::naming_place(const BoundAction& bound, const std::function<void()>& work) {
  try {
    work();
  } catch (const StepCancelled&) {
    throw;
  } catch (...) {
    if (graph_.fail(std::current_exception())) step_.failed_at = place_of(bound);
    throw;
  }
}

void RowRunner::run_action(const BoundAction& bound) {
  for (const BoundOffload& offload : bound.frees) messages_.free(offload, bound);
  for (const BoundOffload& offload : bound.fetches) messages_.fetch(offload);
  const bool backward_of_nothing = bound.action.kind == ActionKind::backward || bound.action.kind == ActionKind::backward_input;
  if (step_.parts.empty(bound.action.microbatch) && backward_of_nothing) return bound.stage->skip_backward(bound.action.microbatch);
  if (step_.parts.empty(bound.action.microbatch) && bound.action.kind == ActionKind::forward) return;
  switch (bound.action.kind) {
    case ActionKind::forward:
      return forward(bound);
    case ActionKind::backward:
    case ActionKind::backward_input:
      return backward(bound);
    case ActionKind::backward_weight:
      bound.stage->recorder().begin(step_.tag_of(bound));
      return bound.stage->backward_weight(bound.action.microbatch);
  }
}

void RowRunner::forward(const BoundAction& bound) {
  const int m = bound.action.microbatch;
  Device& device = graph_.device(graph_.device_of(*bound.stage));
  Tensors given = messages_.receive_inputs(bound);
  bound.stage->recorder().begin(step_.tag_of(bound));
  at::Tensor target;
  if (bound.computes_loss) target = inputs_.target_of(m);
  if (target.defined()) target = device.from_host(target);
  const bool offload = bound.host != nullptr;
  messages_.send_outputs(bound, bound.stage->forward(context_of(m), std::move(given), target, weights_[as_index(m)], offload));
  if (offload) bound.host->send({.gradient = false, .microbatch = m}, bound.stage->saved_activations(m));
}

RunContext RowRunner::context_of(int microbatch) const {
  RunContext context;
  context.seed = seed_;
  context.step = step_.number;
  context.microbatch = microbatch;
  context.first_sample = step_.parts.first(microbatch);
  context.samples = step_.parts.size(microbatch);
  return context;
}

void RowRunner::evaluate(int device, std::vector<Tensors>& outputs) {
  const profiler::ReplaceSlowKernels kernels(graph_.plan().options.replace_slow_kernels);
  const at::NoGradGuard no_grad;
  updates_.begin_evaluation(device);
  std::deque<Launched> launched;
  for (const BoundAction& bound : graph_.row(device)) {
    if (bound.action.kind != ActionKind::forward || step_.parts.empty(bound.action.microbatch)) continue;
    keep_lead(launched);
    const TagScope scope(step_.gpus, step_.tag_of(bound), EventKind::forward);
    bound.stage->begin_action();
    naming_place(bound, [&] { evaluate_action(bound, outputs[as_index(bound.action.microbatch)]); });
    launched.push_back({&bound, graph_.device(device).now()});
  }
}

void RowRunner::evaluate_action(const BoundAction& bound, Tensors& outputs) {
  Tensors given = messages_.receive_inputs(bound);
  bound.stage->recorder().begin(step_.tag_of(bound));
  RunContext context = context_of(bound.action.microbatch);
  context.evaluating = true;
  const Tensors returned = bound.stage->evaluate(context, std::move(given));
  if (!bound.computes_loss) return messages_.send_outputs(bound, returned);
  for (const at::Tensor& output : returned) outputs.push_back(output.cpu());
}

void RowRunner::backward(const BoundAction& bound) {
  const int m = bound.action.microbatch;
  messages_.restore(bound);
  bound.stage->recorder().begin(step_.tag_of(bound));
  // Recomputation needs no gradient, so it runs while the gradient is on its way.
  bound.stage->prepare_backward(m);
  Tensors gradients = messages_.receive_gradients(bound);
  bound.stage->recorder().begin(step_.tag_of(bound));
  const bool split = bound.action.kind == ActionKind::backward_input;
  messages_.send_gradients(bound,
                           split ? bound.stage->backward_input(m, std::move(gradients)) : bound.stage->backward(m, std::move(gradients)));
}

}  // namespace mptune::tuner
