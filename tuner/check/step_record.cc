#include "tuner/check/step_record.h"

#include <ATen/ATen.h>

#include <utility>

#include "profiler/base/activity.h"
#include "profiler/base/index.h"
#include "profiler/model/layers/graph_piece.h"

namespace mptune::tuner {
namespace {

constexpr double kPatienceOfTheWhole = 5 * kPatienceSeconds;  // all layers at once

// Operators that run later may write to the tensors that they are given.
Tensors copies_of(const Tensors& tensors) {
  Tensors copies;
  for (const at::Tensor& tensor : tensors) copies.push_back(tensor.detach().clone());
  return copies;
}

}  // namespace

std::vector<ModelLayer> cloned_layers(const Model& model) {
  std::vector<ModelLayer> layers;
  for (const ModelLayer& layer : model.layers()) layers.push_back(copy_of(layer));
  tie_layers(layers);
  return layers;
}

void StepStatistics::take(const std::vector<ModelLayer>& layers) {
  by_layer_.resize(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!layers[i].layer->has_batch_statistics()) continue;
    std::vector<BatchStatistics> norms = layers[i].layer->take_statistics();
    by_layer_[i].resize(norms.size());
    for (std::size_t norm = 0; norm < norms.size(); ++norm) by_layer_[i][norm].push_back(std::move(norms[norm]));
  }
}

void StepStatistics::commit(const std::vector<ModelLayer>& layers) const {
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (layers[i].layer->has_batch_statistics()) layers[i].layer->commit_statistics(by_layer_[i]);
}

void record_state(const std::vector<ModelLayer>& layers, StepRecord& record) {
  for (const NamedTensor& parameter : parameters_of(layers)) record.gradients.push_back({parameter.name, parameter.tensor.grad()});
  for (const NamedTensor& buffer : buffers_of(layers)) record.buffers.push_back({buffer.name, buffer.tensor});
}

WholeModel::WholeModel(const Model& model) : layers_(cloned_layers(model)) {
  std::vector<const Layer*> all;
  for (const ModelLayer& layer : layers_) all.push_back(layer.layer.get());
  if (auto whole = profiler::whole_exported_layer(all)) whole_.push_back({model.name(), {}, std::move(whole), layers_.front().precision});
}

Tensors WholeModel::forward(const Tensors& inputs, const RunContext& context, std::vector<Tensors>* outputs,
                            const profiler::NodeObserver& watch) {
  if (!whole_.empty()) return forward_program(inputs, context, outputs, watch);
  Tensors values = inputs;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    values = run_layer(layers_[i], static_cast<int>(i), values, context);
    if (outputs != nullptr) outputs->push_back(copies_of(values));
  }
  return values;
}

Tensors WholeModel::forward_program(const Tensors& inputs, const RunContext& context, std::vector<Tensors>* outputs,
                                    const profiler::NodeObserver& watch) {
  std::size_t next = 0;
  Layer& program = *whole_.front().layer;
  profiler::observe_nodes(program, [&](int node, const profiler::ProgramValues& values) {
    if (watch) watch(node, values);
    const profiler::ExportedRange range = *profiler::exported_range(*layers_.at(next).layer);
    if (node + 1 != range.last) return;
    ++next;
    if (outputs == nullptr) return;
    Tensors crossing;
    for (const int value : profiler::exported_layer_outputs(*range.program, range.last))
      crossing.push_back(values[as_index(value)].toTensor());
    outputs->push_back(copies_of(crossing));
  });
  Tensors result = run_layer(whole_.front(), 0, inputs, context);
  profiler::observe_nodes(program, nullptr);
  return result;
}

StepRecord whole_step(const Model& model, const Batch& batch, const std::vector<int>& sizes, std::uint64_t seed, Buffers buffers) {
  WholeModel whole(model);
  const std::vector<NamedTensor> kept = buffers == Buffers::of_the_model ? buffers_of(whole.holders()) : std::vector<NamedTensor>();
  std::vector<at::Tensor> values;
  for (const NamedTensor& buffer : kept) values.push_back(buffer.tensor.clone());
  StepStatistics statistics;
  StepRecord record;
  const std::vector<double> weights = model.loss().weights_of_parts(batch.target, sizes);
  RunContext context;
  context.seed = seed;
  for (const int size : sizes) {
    context.samples = size;
    {
      const at::NoGradGuard no_gradients;
      for (std::size_t i = 0; i < kept.size(); ++i) kept[i].tensor.copy_(values[i]);
    }
    const Batch part = samples_of(batch, context.first_sample, size);
    const Tensors outputs = whole.forward(part.inputs, context, sizes.size() == 1 ? &record.outputs : nullptr);
    const double weight = weights[as_index(context.microbatch)];
    const at::Tensor loss = weight > 0 ? model.loss()(outputs, part.target) : Loss::of_nothing(outputs);
    const Activity activity("the backward of", model.name(), kPatienceOfTheWhole);
    if (loss.requires_grad()) loss.backward(at::full_like(loss, weight));
    const at::Tensor share = loss.detach().to(at::kDouble) * weight;
    record.loss = record.loss.defined() ? record.loss + share : share;
    statistics.take(whole.holders());
    ++context.microbatch;
    context.first_sample += size;
  }
  statistics.commit(whole.holders());
  record_state(whole.holders(), record);
  return record;
}

PiecewiseStep piecewise_step(const Model& model, const Batch& batch, std::uint64_t seed) {
  const std::vector<ModelLayer> layers = cloned_layers(model);
  StepStatistics statistics;
  PiecewiseStep step;
  RunContext context;
  context.seed = seed;
  context.samples = batch.inputs.at(0).size(0);
  context.recomputed = true;
  std::vector<profiler::GraphPiece> pieces;
  Tensors values = batch.inputs;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Tensors leaves = profiler::as_leaves(values);
    pieces.push_back({leaves, {}, {}});
    step.inputs.push_back(leaves);
    values = run_layer(layers[i], static_cast<int>(i), leaves, context);
    step.record.outputs.push_back(copies_of(values));
    if (i + 1 < layers.size()) profiler::set_roots(pieces.back(), values);
  }
  const at::Tensor loss = model.loss()(values, batch.target);
  profiler::set_roots(pieces.back(), {loss});
  step.record.loss = loss.detach().to(at::kDouble);
  statistics.take(layers);

  context.recomputed = false;
  context.recomputing = true;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const at::NoGradGuard no_gradients;
    step.again.push_back(copies_of(run_layer(layers[i], static_cast<int>(i), step.inputs[i], context)));
  }

  Tensors gradients{at::ones_like(loss)};
  for (; !pieces.empty(); pieces.pop_back()) {
    const Activity activity("the backward of layer", layers[pieces.size() - 1].name);
    gradients = profiler::backward_through(std::move(pieces.back()), std::move(gradients));
  }
  statistics.commit(layers);
  record_state(layers, step.record);
  return step;
}

}  // namespace mptune::tuner
