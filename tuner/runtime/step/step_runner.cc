#include "tuner/runtime/step/step_runner.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/model/layers/in_memory_format.h"
#include "profiler/trace/collect/nvtx_range.h"
#include "tuner/runtime/step/step_recording.h"

namespace mptune::tuner {
namespace {

/// Returns the tensor on the host, without a gradient, which nobody reads. A tensor of inference mode can't be saved for a backward.
at::Tensor as_data(const at::Tensor& tensor) {
  const c10::InferenceMode off(false);
  const at::Tensor on_host = tensor.cpu();
  return on_host.is_inference() ? on_host.clone() : on_host.detach();
}

}  // namespace

StepRunner::StepRunner(BoundGraph& graph, std::uint64_t seed)
    : step_(graph),
      tied_(graph),
      inputs_(graph),
      ranks_(step_, tied_),
      updates_(step_, tied_, ranks_),
      sums_(step_, tied_, ranks_),
      rows_(step_, inputs_, updates_, sums_, seed) {}

Tensors StepRunner::on_host(const Tensors& inputs) const {
  if (at::autocast::is_autocast_enabled(at::kCPU) || at::autocast::is_autocast_enabled(at::kCUDA))
    throw Error("autocast is on in the calling thread, but layers run in threads of their own", "Pipeline::step",
                "call it outside of autocast, with a plan in bf16 or fp16 (--precision)");
  Tensors own;
  for (const at::Tensor& input : inputs)
    own.push_back(profiler::in_memory_format(as_data(input), step_.graph.plan().options.memory_format));
  return own;
}

StepResult StepRunner::run(const Tensors& inputs, const at::Tensor& target, Accumulate accumulate) {
  const profiler::NvtxRange range("step", step_.number);
  const auto start = profiler::SteadyClock::now();
  Tensors own_inputs = on_host(inputs);
  const at::Tensor own_target = target.defined() ? as_data(target) : target;
  step_.parts = BatchParts(step_.graph.plan(), static_cast<int>(inputs.front().size(0)));
  rows_.begin(step_.graph.loss().weights_of_parts(own_target, step_.parts.sizes()));
  inputs_.begin(std::move(own_inputs), own_target, step_.parts);
  sums_.begin();
  run_devices(false, [&](int device) {
    rows_.train(device, accumulate);
    sums_.finish(device);
  });
  StepResult result;
  result.loss = take_loss();
  result.seconds = std::chrono::duration<double>(profiler::SteadyClock::now() - start).count();
  ++step_.number;
  return result;
}

std::vector<Tensors> StepRunner::evaluate(const Tensors& inputs) {
  updates_.finish();
  Tensors own_inputs = on_host(inputs);
  step_.parts = BatchParts(step_.graph.plan(), static_cast<int>(inputs.front().size(0)));
  inputs_.begin(std::move(own_inputs), {}, step_.parts);
  std::vector<Tensors> outputs(step_.parts.sizes().size());
  run_devices(true, [&](int device) { rows_.evaluate(device, outputs); });
  const Stage& last = step_.graph.plan().stages.back();
  for (int m = 0; m < static_cast<int>(outputs.size()); ++m)
    if (!step_.parts.empty(m))
      outputs[as_index(m)] = ranks_.from_replica(step_.graph.plan().num_stages() - 1, replica_of(last, m), outputs[as_index(m)]);
  outputs.resize(as_index(std::ranges::count_if(step_.parts.sizes(), [](int size) { return size > 0; })));
  return outputs;
}

void StepRunner::run_devices(bool evaluates, const std::function<void(int device)>& work) {
  step_.graph.set_shapes(step_.parts.samples(), !evaluates);
  ranks_.begin(evaluates);
  const auto meanwhile = [&] {
    inputs_.stage();
    ranks_.meanwhile(evaluates);
  };
  step_.run(work, meanwhile, [this] {
    ranks_.end();
    inputs_.end();
  });
}

double StepRunner::take_loss() {
  const Plan& plan = step_.graph.plan();
  std::vector<double> losses(as_index(plan.num_microbatches()));
  for (int m = 0; m < plan.num_microbatches(); ++m) {
    const auto& last = step_.graph.stages().back()[as_index(replica_of(plan.stages.back(), m))];
    if (last && !step_.parts.empty(m)) losses[as_index(m)] = last->take_loss(m);
  }
  double loss = 0;
  for (const double of_microbatch : ranks_.sum_of(losses)) loss += of_microbatch;
  return loss;
}

void StepRunner::record(HostCollector* collector, TagSink* gpus) {
  record_steps(step_, collector, gpus);
}

Tensors StepRunner::of_stage_everywhere(int stage, const Tensors& own) {
  return ranks_.from_replica(stage, 0, own);
}

}  // namespace mptune::tuner
