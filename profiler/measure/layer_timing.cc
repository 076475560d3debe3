#include "profiler/measure/layer_timing.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "profiler/device/precise_sleep.h"
#include "profiler/model/graph_piece.h"
#include "profiler/model/in_memory_format.h"
#include "profiler/statistics/samples.h"

namespace mptune::profiler {

namespace {

double seconds_between(SteadyClock::time_point a, SteadyClock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

std::int64_t total_bytes(const Tensors& tensors) {
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

std::int64_t differentiable_bytes(const Tensors& tensors) {
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += tensor.requires_grad() ? static_cast<std::int64_t>(tensor.nbytes()) : 0;
  return bytes;
}

/// True if the tensors' memory is also held by the autograd graph or by a tensor that they are views of.
bool held_elsewhere(const Tensors& tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const at::Tensor& tensor) { return tensor.use_count() > 1 || tensor.storage().use_count() > 1; });
}

/// Bytes of gradients that a layer's parameters do not have yet.
std::int64_t missing_gradient_bytes(const Layer& layer) {
  std::int64_t bytes = 0;
  for (const NamedTensor& parameter : layer.parameters())
    if (!parameter.tensor.grad().defined()) bytes += static_cast<std::int64_t>(parameter.tensor.nbytes());
  return bytes;
}

struct Timed {
  std::unique_ptr<const Stamp> start, end;
  [[nodiscard]] double seconds() const { return end->seconds_since(*start); }
};

}  // namespace

LayerChain::LayerChain(const Model& model, Device& device, MemoryFormat format) : device_(device), format_(format), loss_(model.loss()) {
  for (const ModelLayer& layer : model.layers()) layers_.push_back({layer.name, layer.modules, layer.layer->clone()});
  tie_layers(layers_);
  to_memory_format(layers_, format_);
  for (const auto& tensors : {parameters_of(layers_), buffers_of(layers_)})
    for (const NamedTensor& named : tensors) device_.adopt(named.tensor);
}

std::vector<at::Tensor> LayerChain::parameters() const {
  std::vector<at::Tensor> all;
  for (const NamedTensor& parameter : parameters_of(layers_)) all.push_back(parameter.tensor);
  return all;
}

void LayerChain::clear_gradients() {
  for (at::Tensor& parameter : parameters()) parameter.mutable_grad().reset();
}

ChainTimes LayerChain::time_pass(const Batch& microbatch, bool accumulate) {
  if (!accumulate) clear_gradients();
  const std::size_t n = layers_.size();
  ChainTimes times(n);
  // Stamps are read at the end, so that the thread never waits for an asynchronous device between layers.
  std::vector<Timed> forward(n), backward(n);
  const RunContext context{0, 0, 0, 0, microbatch.inputs.at(0).size(0), false};
  std::vector<GraphPiece> saved(n);
  const at::Tensor target = microbatch.target.defined() ? device_.from_host(microbatch.target) : at::Tensor();
  Tensors values;
  for (const at::Tensor& input : microbatch.inputs) values.push_back(device_.from_host(in_memory_format(input, format_)));
  for (std::size_t i = 0; i < n; ++i) {
    saved[i].inputs = as_leaves(values);
    const std::int64_t before = device_.current_bytes();
    device_.reset_peak();
    forward[i].start = device_.stamp();
    Tensors outputs = run_layer(layers_[i], static_cast<int>(i), saved[i].inputs, context);
    if (i + 1 == n) outputs = {loss_(outputs, target)};
    forward[i].end = device_.stamp();
    (void)layers_[i].layer->take_statistics();
    times.output_bytes[i] = total_bytes(outputs);
    times.gradient_bytes[i] = differentiable_bytes(outputs);
    times.keeps_output[i] = held_elsewhere(outputs);
    times.saved_activation_bytes[i] = device_.current_bytes() - before;
    times.workspace_bytes[i] = device_.peak_bytes() - device_.current_bytes();
    set_roots(saved[i], outputs);
    values = std::move(outputs);
  }
  Tensors gradients{at::ones_like(values[0])};
  values.clear();
  for (std::size_t i = n; i-- > 0;) {
    const std::int64_t before = device_.current_bytes();
    const std::int64_t made = missing_gradient_bytes(*layers_[i].layer);
    device_.reset_peak();
    backward[i].start = device_.stamp();
    gradients = backward_through(std::move(saved[i]), std::move(gradients));
    backward[i].end = device_.stamp();
    times.workspace_bytes[i] = std::max(times.workspace_bytes[i], device_.peak_bytes() - before - made);
  }
  for (std::size_t i = 0; i < n; ++i) {
    times.forward_s[i] = forward[i].seconds();
    times.backward_s[i] = backward[i].seconds();
  }
  return times;
}

double action_overhead_seconds() {
  std::vector<double> seconds;
  for (int i = 0; i < 200; ++i) {
    const at::Tensor value = at::zeros({1}).requires_grad_();
    const at::Tensor gradient = at::zeros({1, 1});
    const auto start = SteadyClock::now();
    GraphPiece piece{as_leaves({value}), {}, {}};
    set_roots(piece, {piece.inputs[0].view({1, 1})});
    (void)backward_through(std::move(piece), {gradient});
    seconds.push_back(seconds_between(start, SteadyClock::now()) / 2);
  }
  return median(std::move(seconds));
}

}  // namespace mptune::profiler
