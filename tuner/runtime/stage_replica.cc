#include "mptune/tuner/runtime/stage_replica.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

namespace mptune {

namespace {

/// Leaves that cut the graph: what the stage before computed, as inputs of its own.
Tensors detached(const Tensors& tensors) {
  Tensors leaves;
  for (const at::Tensor& tensor : tensors) {
    at::Tensor leaf = tensor.detach();
    if (leaf.is_floating_point() && at::GradMode::is_enabled()) leaf.requires_grad_();
    leaves.push_back(std::move(leaf));
  }
  return leaves;
}

/// The graph is kept by its roots, not by the outputs: their memory is free as soon as they are sent.
torch::autograd::edge_list graph_roots(const Tensors& outputs) {
  torch::autograd::edge_list roots;
  for (const at::Tensor& output : outputs)
    roots.push_back(output.requires_grad() ? torch::autograd::impl::gradient_edge(output) : torch::autograd::Edge());
  return roots;
}

}  // namespace

StageReplica::StageReplica(const Model& model, Device& device, const Stage& stage, int index, int replica, std::optional<Loss> loss)
    : stage_(stage), index_(index), replica_(replica), loss_(std::move(loss)), on_gpu_(device.spec().kind == DeviceSpec::Kind::cuda) {
  for (int i = stage.first_layer; i < stage.last_layer; ++i) {
    const ModelLayer& source = model.layers()[static_cast<std::size_t>(i)];
    names_.push_back(source.name);
    layers_.push_back(source.layer->clone());
    for (const NamedTensor& buffer : layers_.back()->buffers()) device.adopt(buffer.tensor);
    for (const NamedTensor& parameter : layers_.back()->parameters()) {
      device.adopt(parameter.tensor);
      parameters_.push_back(parameter.tensor);
    }
    has_batch_statistics_ = has_batch_statistics_ || layers_.back()->has_batch_statistics();
  }
  statistics_.resize(layers_.size());
}

std::vector<StageReplica::Segment> StageReplica::segments_for(int microbatch) const {
  const int layers = static_cast<int>(layers_.size());
  if (!recomputes(stage_.recompute, microbatch)) return {{0, layers, false}};
  if (stage_.recompute.mode == Recompute::Mode::all) return {{0, layers, true}};
  std::vector<Segment> segments;
  for (int i = 0; i < layers; ++i) {
    const auto& listed = stage_.recompute.layers;
    const bool again = std::find(listed.begin(), listed.end(), stage_.first_layer + i) != listed.end();
    if (segments.empty() || segments.back().recompute != again) segments.push_back({i, i, again});
    segments.back().last = i + 1;
  }
  return segments;
}

Tensors StageReplica::run_layers(const Segment& segment, Tensors values, const RunContext& context, What what) {
  for (int i = segment.first; i < segment.last; ++i) {
    values = layers_[static_cast<std::size_t>(i)]->forward(values, context);
    if (!context.recomputing) collect_statistics(i, context.microbatch);
    if (!recorder_) continue;
    const int layer = stage_.first_layer + i;
    recorder_->leaf(what, layer);
    // While recording, the gradient of a layer's output marks where the backward of the layer behind it ends.
    const bool last_output = i + 1 == segment.last && !ends_in_loss(segment);
    if (at::GradMode::is_enabled() && values[0].requires_grad() && !last_output)
      values[0].register_hook([recorder = recorder_.get(), layer](const at::Tensor&) { recorder->leaf(What::backward, layer + 1); });
  }
  return values;
}

at::Tensor StageReplica::loss_of(const Tensors& outputs, const at::Tensor& target, What what) {
  at::Tensor loss = (*loss_)(outputs, target);
  if (recorder_) recorder_->leaf(what, stage_.last_layer);
  return loss;
}

Tensors StageReplica::forward(const RunContext& context, Tensors inputs, const at::Tensor& target, double weight) {
  InFlight& flight = in_flight_[context.microbatch];
  flight = {context, target, weight, {}, {}};
  Tensors values = std::move(inputs);
  for (const Segment& segment : segments_for(context.microbatch)) {
    const at::AutoGradMode grad(!segment.recompute);
    KeptSegment kept{segment, detached(values), {}};
    values = run_layers(segment, kept.inputs, context, What::forward);
    if (ends_in_loss(segment)) {
      flight.loss = loss_of(values, target, What::forward);
      // Read at the end of the step: a device that runs behind its thread is not waited for.
      losses_[context.microbatch] = {flight.loss.detach(), weight};
      if (segment.recompute) flight.loss.reset();
    } else if (!segment.recompute) {
      kept.roots = graph_roots(values);
    }
    flight.segments.push_back(std::move(kept));
  }
  if (loss_) return {};
  for (at::Tensor& value : values) value = value.detach();
  return values;
}

void StageReplica::rerun(InFlight& flight, KeptSegment& kept) {
  const at::AutoGradMode grad(true);
  RunContext again = flight.context;
  again.recomputing = true;
  kept.inputs = detached(kept.inputs);
  Tensors outputs = run_layers(kept.segment, kept.inputs, again, What::recompute);
  if (ends_in_loss(kept.segment)) {
    flight.loss = loss_of(outputs, flight.target, What::recompute);
  } else {
    kept.roots = graph_roots(outputs);
  }
  kept.segment.recompute = false;
}

void StageReplica::prepare_backward(int microbatch) {
  InFlight& flight = in_flight_.at(microbatch);
  if (flight.segments.back().segment.recompute) rerun(flight, flight.segments.back());
}

Tensors StageReplica::backward(int microbatch, Tensors gradients) {
  InFlight flight = std::move(in_flight_.extract(microbatch).mapped());
  while (!flight.segments.empty()) {
    KeptSegment kept = std::move(flight.segments.back());
    flight.segments.pop_back();
    if (kept.segment.recompute) rerun(flight, kept);
    torch::autograd::edge_list roots;
    torch::autograd::variable_list root_gradients;
    if (ends_in_loss(kept.segment)) {
      roots.push_back(torch::autograd::impl::gradient_edge(flight.loss));
      root_gradients.push_back(at::full_like(flight.loss, flight.weight));
      flight.loss.reset();
    } else {
      for (std::size_t i = 0; i < kept.roots.size(); ++i) {
        if (!kept.roots[i].is_valid() || !gradients[i].defined()) continue;
        roots.push_back(std::move(kept.roots[i]));
        root_gradients.push_back(std::move(gradients[i]));
      }
    }
    gradients.clear();
    if (!roots.empty())
      torch::autograd::Engine::get_default_engine().execute(roots, root_gradients, /*keep_graph=*/false, /*create_graph=*/false,
                                                            /*accumulate_grad=*/true);
    if (recorder_) recorder_->leaf(What::backward, stage_.first_layer + kept.segment.first);
    for (at::Tensor& input : kept.inputs)
      gradients.push_back(input.requires_grad() ? std::exchange(input.mutable_grad(), {}) : at::Tensor());
  }
  return gradients;
}

double StageReplica::take_loss(int microbatch) {
  const WeightedLoss weighted = std::move(losses_.extract(microbatch).mapped());
  return weighted.loss.item<double>() * weighted.weight;
}

void StageReplica::abandon() {
  in_flight_.clear();
  losses_.clear();
  for (auto& layer : statistics_) layer.clear();
}

void StageReplica::clear_gradients() {
  for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
}

std::vector<NamedTensor> StageReplica::named_parameters() const {
  std::vector<NamedTensor> all;
  for (const auto& layer : layers_)
    for (NamedTensor& parameter : layer->parameters()) all.push_back(std::move(parameter));
  return all;
}

std::vector<NamedTensor> StageReplica::named_buffers() const {
  std::vector<NamedTensor> all;
  for (const auto& layer : layers_)
    for (NamedTensor& buffer : layer->buffers()) all.push_back(std::move(buffer));
  return all;
}

void StageReplica::collect_statistics(int layer, int microbatch) {
  Layer& source = *layers_[static_cast<std::size_t>(layer)];
  if (source.has_batch_statistics()) statistics_[static_cast<std::size_t>(layer)][microbatch] = source.take_statistics();
}

void StageReplica::commit_statistics(const std::vector<StageReplica*>& replicas) {
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    if (!layers_[layer]->has_batch_statistics()) continue;
    std::map<int, std::vector<BatchStatistics>> by_microbatch;
    for (StageReplica* replica : replicas) by_microbatch.merge(replica->statistics_[layer]);
    std::vector<std::vector<BatchStatistics>> by_norm;
    for (auto& [microbatch, norms] : by_microbatch) {
      by_norm.resize(norms.size());
      for (std::size_t norm = 0; norm < norms.size(); ++norm) by_norm[norm].push_back(std::move(norms[norm]));
    }
    layers_[layer]->commit_statistics(by_norm);
    for (StageReplica* replica : replicas) replica->statistics_[layer].clear();
  }
}

}  // namespace mptune
