#include "tuner/runtime/tied_weights.h"

#include <ATen/ATen.h>

#include <utility>

namespace mptune::tuner {

void add_gradient(at::Tensor parameter, const at::Tensor& gradient) {
  if (!gradient.defined()) return;
  at::Tensor& sum = parameter.mutable_grad();
  if (sum.defined())
    sum.add_(gradient.to(parameter.device()));
  else
    sum = gradient.to(parameter.device(), gradient.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
}

TiedWeights::TiedWeights(const BoundGraph& graph) {
  std::map<std::string, Weight> held;
  for (const BoundGraph::Replicas& replicas : graph.stages()) {
    for (const NamedTensor& parameter : replicas[0]->named_parameters())
      held[parameter.name] = {replicas[0]->stage(), parameter.tensor, {}};
    for (const NamedTensor& copy : replicas[0]->copies()) held.at(copy.name).copies.push_back(copy.tensor);
  }
  for (auto& [name, parameter] : held)
    if (!parameter.copies.empty()) weights_.emplace(name, std::move(parameter));
}

}  // namespace mptune::tuner
