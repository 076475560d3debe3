#include "stage_loop.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <utility>

#include "profiler/base/index.h"
#include "tuner/check/step_record.h"

namespace mptune::testing {
namespace {

void add(TensorsByName& sums, const std::string& name, const at::Tensor& gradient) {
  if (!gradient.defined()) return;
  at::Tensor& sum = sums[name];
  sum = sum.defined() ? sum.add(gradient) : gradient.clone();
}

void add(ProductCounter::Counts& sums, const ProductCounter::Counts& counts) {
  for (const auto& [name, count] : counts) sums[name] += count;
}

std::vector<ModelLayer> layers_of(const Model& model, const Stage& stage) {
  std::vector<ModelLayer> layers;
  for (int i = stage.first_layer; i < stage.last_layer; ++i) {
    const ModelLayer& source = model.layers()[as_index(i)];
    layers.push_back({source.name, source.modules, source.layer->clone()});
  }
  tie_layers(layers);
  return layers;
}

}  // namespace

StageLoop run_stage_loop(const Model& model, const Plan& plan, const Batch& batch, std::int64_t step) {
  at::set_num_threads(1);
  StageLoop loop;
  loop.gradients.resize(plan.stages.size());
  std::vector<std::vector<ModelLayer>> stages;
  for (const Stage& stage : plan.stages) stages.push_back(layers_of(model, stage));
  std::vector<tuner::StepStatistics> statistics(stages.size());
  RunContext context{.step = step};
  for (const int samples : plan.microbatch_sizes) {
    context.samples = samples;
    const Batch part = samples_of(batch, context.first_sample, samples);
    Tensors values = part.inputs;
    int index = 0;
    for (const auto& layers : stages)
      for (const ModelLayer& layer : layers) values = run_layer(layer, index++, values, context);
    const at::Tensor loss = model.loss()(values, part.target);
    add(loop.forward, ProductCounter::take());
    const double weight = static_cast<double>(samples) / plan.global_batch_size();
    loss.backward(at::full_like(loss, weight));
    add(loop.backward, ProductCounter::take());
    loop.loss += loss.item<double>() * weight;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      statistics[s].take(stages[s]);
      TensorsByName& found = loop.gradients[s].emplace_back();
      for (const NamedTensor& parameter : parameters_of(stages[s]))
        found[parameter.name] = std::exchange(at::Tensor(parameter.tensor).mutable_grad(), {});
    }
    ++context.microbatch;
    context.first_sample += samples;
  }
  for (std::size_t s = 0; s < stages.size(); ++s) {
    statistics[s].commit(stages[s]);
    for (const NamedTensor& buffer : buffers_of(stages[s])) loop.buffers.emplace(buffer.name, buffer.tensor);
  }
  return loop;
}

TensorsByName sum_ascending(const StageLoop& loop, const Plan& plan) {
  TensorsByName sums;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const std::size_t replicas = plan.stages[s].devices.size();
    TensorsByName of_stage;
    for (std::size_t replica = 0; replica < replicas; ++replica) {
      TensorsByName of_replica;
      for (std::size_t m = replica; m < loop.gradients[s].size(); m += replicas)
        for (const auto& [name, gradient] : loop.gradients[s][m]) add(of_replica, name, gradient);
      for (const auto& [name, gradient] : of_replica) add(of_stage, name, gradient);
    }
    for (const auto& [name, gradient] : of_stage) add(sums, name, gradient);
  }
  return sums;
}

}  // namespace mptune::testing
