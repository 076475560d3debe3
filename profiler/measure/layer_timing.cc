#include "mptune/profiler/measure/layer_timing.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "mptune/profiler/device/precise_sleep.h"
#include "mptune/profiler/statistics/samples.h"

namespace mptune {

namespace {

double seconds_between(SteadyClock::time_point a, SteadyClock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

Tensors as_leaves(const Tensors& tensors) {
  Tensors leaves;
  for (const at::Tensor& tensor : tensors) {
    leaves.push_back(tensor.detach());
    if (tensor.is_floating_point()) leaves.back().requires_grad_();
  }
  return leaves;
}

std::int64_t total_bytes(const Tensors& tensors) {
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

/// Whether somebody beside the tensors themselves holds memory of theirs: the graph, or what they are views of.
bool held_elsewhere(const Tensors& tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const at::Tensor& tensor) { return tensor.use_count() > 1 || tensor.storage().use_count() > 1; });
}

/// Of all parameters of a layer.
std::int64_t gradient_bytes(const Layer& layer) {
  std::int64_t bytes = 0;
  for (const NamedTensor& parameter : layer.parameters()) bytes += static_cast<std::int64_t>(parameter.tensor.nbytes());
  return bytes;
}

struct Timed {
  std::unique_ptr<const Stamp> start, end;
  [[nodiscard]] double seconds() const { return end->seconds_since(*start); }
};

/// As the runtime keeps it: a graph by its roots, so that an output is held only by those that need it.
struct Kept {
  Tensors inputs;
  torch::autograd::edge_list roots;
};

torch::autograd::edge_list roots_of(const Tensors& outputs) {
  torch::autograd::edge_list roots;
  for (const at::Tensor& output : outputs)
    roots.push_back(output.requires_grad() ? torch::autograd::impl::gradient_edge(output) : torch::autograd::Edge());
  return roots;
}

Tensors backward_of(Kept kept, Tensors gradients) {
  torch::autograd::edge_list roots;
  torch::autograd::variable_list root_gradients;
  for (std::size_t i = 0; i < kept.roots.size(); ++i) {
    if (!kept.roots[i].is_valid() || !gradients[i].defined()) continue;
    roots.push_back(std::move(kept.roots[i]));
    root_gradients.push_back(std::move(gradients[i]));
  }
  gradients.clear();
  if (!roots.empty()) torch::autograd::Engine::get_default_engine().execute(roots, root_gradients, false, false, true);
  for (at::Tensor& input : kept.inputs) gradients.push_back(input.requires_grad() ? std::exchange(input.mutable_grad(), {}) : at::Tensor());
  return gradients;
}

}  // namespace

LayerChain::LayerChain(const Model& model, Device& device) : device_(device), loss_(model.loss()) {
  for (const ModelLayer& layer : model.layers()) {
    layers_.push_back(layer.layer->clone());
    for (const auto& tensors : {layers_.back()->parameters(), layers_.back()->buffers()})
      for (const NamedTensor& named : tensors) device_.adopt(named.tensor);
  }
}

std::vector<at::Tensor> LayerChain::parameters() const {
  std::vector<at::Tensor> all;
  for (const auto& layer : layers_)
    for (const NamedTensor& parameter : layer->parameters()) all.push_back(parameter.tensor);
  return all;
}

void LayerChain::clear_gradients() {
  for (at::Tensor& parameter : parameters()) parameter.mutable_grad().reset();
}

ChainTimes LayerChain::time_pass(const Batch& microbatch, bool accumulate) {
  if (!accumulate) clear_gradients();
  const std::size_t n = layers_.size();
  ChainTimes times{std::vector<double>(n),       std::vector<double>(n),       std::vector<std::int64_t>(n),
                   std::vector<std::int64_t>(n), std::vector<std::int64_t>(n), std::vector<bool>(n)};
  // Read when all is done: a device that runs behind its thread is not waited for between the layers.
  std::vector<Timed> forward(n), backward(n);
  const RunContext context{0, 0, 0, 0, microbatch.input.size(0), false};
  std::vector<Kept> kept(n);
  const at::Tensor target = microbatch.target.defined() ? device_.from_host(microbatch.target) : at::Tensor();
  Tensors values{device_.from_host(microbatch.input)};
  for (std::size_t i = 0; i < n; ++i) {
    kept[i].inputs = i == 0 ? values : as_leaves(values);
    const std::int64_t before = device_.current_bytes();
    device_.reset_peak();
    forward[i].start = device_.stamp();
    Tensors outputs = layers_[i]->forward(kept[i].inputs, context);
    if (i + 1 == n) outputs = {loss_(outputs, target)};
    forward[i].end = device_.stamp();
    (void)layers_[i]->take_statistics();
    times.output_bytes[i] = total_bytes(outputs);
    times.keeps_output[i] = held_elsewhere(outputs);
    times.kept_bytes[i] = device_.current_bytes() - before;
    times.workspace_bytes[i] = device_.peak_bytes() - device_.current_bytes();
    kept[i].roots = roots_of(outputs);
    values = std::move(outputs);
  }
  Tensors gradients{at::ones_like(values[0])};
  values.clear();
  for (std::size_t i = n; i-- > 0;) {
    const std::int64_t before = device_.current_bytes();
    device_.reset_peak();
    backward[i].start = device_.stamp();
    gradients = backward_of(std::move(kept[i]), std::move(gradients));
    backward[i].end = device_.stamp();
    const std::int64_t made = accumulate ? 0 : gradient_bytes(*layers_[i]);
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
    const at::Tensor value = at::zeros({1});
    const auto start = SteadyClock::now();
    Kept kept{as_leaves({value}), {}};
    kept.roots = roots_of({kept.inputs[0].view({1, 1})});
    (void)backward_of(std::move(kept), {value.view({1, 1})});
    seconds.push_back(seconds_between(start, SteadyClock::now()) / 2);
  }
  return median(std::move(seconds));
}

}  // namespace mptune
