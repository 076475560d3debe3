#include "tuner/runtime/graph/tied_weights.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace mptune::tuner {

namespace {

at::Tensor tensor_named(const std::string& name, const std::vector<NamedTensor>& tensors) {
  const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
  return found == tensors.end() ? at::Tensor() : found->tensor;
}

}  // namespace

void add_gradient(at::Tensor parameter, const at::Tensor& gradient) {
  if (!gradient.defined()) return;
  at::Tensor& sum = parameter.mutable_grad();
  if (sum.defined())
    sum.add_(gradient.to(parameter.device()));
  else
    sum = gradient.to(parameter.device(), gradient.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
}

TiedWeights::TiedWeights(const BoundGraph& graph) {
  for (const auto& [name, stages] : graph.tied_stages()) {
    Weight weight{.number = static_cast<int>(weights_.size()), .stage = stages.front(), .first = {}, .copies = {}};
    if (const StageReplica* own = graph.trained(weight.stage)) weight.first = tensor_named(name, own->named_parameters());
    for (std::size_t i = 1; i < stages.size(); ++i) {
      const StageReplica* own = graph.trained(stages[i]);
      weight.copies.push_back({stages[i], own != nullptr ? tensor_named(name, own->copies()) : at::Tensor()});
    }
    weights_.emplace(name, std::move(weight));
  }
}

}  // namespace mptune::tuner
