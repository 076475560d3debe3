#include "exported_chain.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "profiler/model/files/torch_file.h"
#include "profiler/model/random/randomness.h"

namespace mptune::testing {
using namespace profiler;

EagerStep read_eager_step(const std::string& path) {
  EagerStep step;
  for (const auto& [name, tensor] : profiler::read_torch_file(path)) {
    if (name.starts_with("input.")) step.inputs.push_back(tensor);
    if (name == "loss") step.loss = tensor;
    if (name.starts_with("gradient.")) step.gradients[name.substr(9)] = tensor;
    if (name.starts_with("buffer.")) step.buffers[name.substr(7)] = tensor;
  }
  return step;
}

void Agreement::add(const std::string& name, const at::Tensor& ours, const at::Tensor& theirs) {
  const bool comparable = ours.defined() && ours.sizes() == theirs.sizes();
  if (comparable && ours.equal(theirs)) {
    ++equal;
    return;
  }
  ++different;
  const double scale = std::max(least, theirs.to(at::kDouble).abs().max().item<double>());
  const double error = comparable ? (ours.to(at::kDouble) - theirs.to(at::kDouble)).abs().max().item<double>() / scale : INFINITY;
  if (error <= worst) return;
  worst = error;
  worst_name = name;
}

ExportedChain::ExportedChain(std::shared_ptr<const BoundProgram> program, const std::map<std::string, at::Tensor>& tensors,
                             const std::vector<int>& cuts) {
  std::vector<int> ends = cuts;
  ends.push_back(program->graph.nodes());
  int first = 0;
  for (const int last : ends) {
    layers_.push_back(make_exported_layer(program, first, last, tensors));
    first = last;
  }
  for (const auto& layer : layers_)
    for (const NamedTensor& parameter : layer->parameters())
      for (const auto& [name, tensor] : tensors)
        if (tensor.is_alias_of(tensors.at(parameter.name))) stored_as_[name] = parameter.name;
}

void ExportedChain::draw(std::uint64_t seed, std::int64_t step) {
  draws_ = true;
  drawing_.seed = seed;
  drawing_.step = step;
}

Tensors ExportedChain::forward(Layer& layer, const Tensors& inputs, RunContext context) const {
  if (!draws_) return layer.forward(inputs, context);
  profiler::DrawScope draws({context.seed, context.step, 0, "layer", context.first_sample, context.samples});
  context.draws = &draws;
  return layer.forward(inputs, context);
}

void ExportedChain::step(const Tensors& inputs, bool recompute, std::int64_t first_sample, LossOf loss) {
  std::vector<Tensors> entered, left;
  Tensors values = inputs;
  RunContext context = drawing_;
  context.samples = inputs.at(0).size(0);
  context.first_sample = first_sample;
  for (const auto& layer : layers_) {
    Tensors leaves;
    for (const at::Tensor& value : values) {
      leaves.push_back(boundary_ == Boundary::shared ? value.detach() : value.detach().clone(at::MemoryFormat::Contiguous));
      if (value.requires_grad()) leaves.back().requires_grad_();
    }
    entered.push_back(leaves);
    if (recompute) {
      const at::NoGradGuard no_gradients;
      context.recomputed = true;
      (void)forward(*layer, leaves, context);
      context.recomputed = false;
    }
    std::vector<std::vector<BatchStatistics>> by_norm;
    context.recomputing = recompute;
    if (!recompute) values = forward(*layer, leaves, context);
    for (BatchStatistics& norm : layer->take_statistics()) by_norm.push_back({std::move(norm)});
    if (recompute) values = forward(*layer, leaves, context);
    context.recomputing = false;
    layer->commit_statistics(by_norm);
    left.push_back(values);
  }
  loss_ = values[0];
  if (loss_.dim() > 0) loss_ = loss == LossOf::mean_of_squares ? loss_.square().mean() : loss_.square().sum();
  loss_.backward();
  for (std::size_t i = layers_.size() - 1; i-- > 0;) {
    torch::autograd::variable_list roots, gradients;
    for (std::size_t k = 0; k < left[i].size(); ++k) {
      if (!left[i][k].requires_grad() || !entered[i + 1][k].grad().defined()) continue;
      roots.push_back(left[i][k]);
      gradients.push_back(entered[i + 1][k].grad());
    }
    if (!roots.empty()) torch::autograd::backward(roots, gradients);
  }
}

std::map<std::string, at::Tensor> ExportedChain::gradients() const {
  std::map<std::string, at::Tensor> gradients;
  for (const auto& layer : layers_) {
    for (const NamedTensor& parameter : layer->parameters()) {
      if (!parameter.tensor.grad().defined()) continue;
      at::Tensor& sum = gradients[parameter.name];
      sum = sum.defined() ? sum + parameter.tensor.grad() : parameter.tensor.grad();
    }
  }
  return gradients;
}

std::map<std::string, at::Tensor> ExportedChain::buffers() const {
  std::map<std::string, at::Tensor> buffers;
  for (const auto& layer : layers_)
    for (const NamedTensor& buffer : layer->buffers()) buffers[buffer.name] = buffer.tensor;
  return buffers;
}

Agreement ExportedChain::compare(const EagerStep& expected) const {
  const std::map<std::string, at::Tensor> gradients = this->gradients(), buffers = this->buffers();
  Agreement agreement;
  agreement.add("loss", loss_.detach(), expected.loss);
  for (const auto& [name, gradient] : expected.gradients) {
    const auto stored = stored_as_.find(name);
    const std::string& here = stored == stored_as_.end() ? name : stored->second;
    agreement.add("gradient of " + name, gradients.count(here) > 0 ? gradients.at(here) : at::zeros_like(gradient), gradient);
  }
  // Buffers that are not saved with the model are constants to it.
  for (const auto& [name, buffer] : expected.buffers)
    if (buffers.count(name) > 0) agreement.add("buffer " + name, buffers.at(name), buffer);
  return agreement;
}

}  // namespace mptune::testing
