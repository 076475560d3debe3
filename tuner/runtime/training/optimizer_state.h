#pragma once

#include <map>
#include <string>
#include <vector>

#include "profiler/model/layers/layer.h"

namespace torch::optim {
class Optimizer;
}

namespace mptune {

/// What an optimizer keeps, by parameter: {"fc.weight": {"exp_avg": tensor, "step": tensor}}, named as in Python. The tensors are on the
/// host.
using OptimizerState = std::map<std::string, std::map<std::string, at::Tensor>>;

/// Copies what an optimizer (SGD, Adam, AdamW) keeps for these of its parameters; parameters that it has not stepped yet are left out.
/// Throws Error for other optimizers.
[[nodiscard]] OptimizerState optimizer_state(const torch::optim::Optimizer& optimizer, const std::vector<NamedTensor>& parameters);

/// Gives an optimizer `state` in place of its own. Entries of other parameters are ignored. Throws Error for other optimizers, for a state
/// of another kind of optimizer, and for tensors of other shapes.
void set_optimizer_state(torch::optim::Optimizer& optimizer, const std::vector<NamedTensor>& parameters, const OptimizerState& state);

}  // namespace mptune
