#pragma once

#include <map>
#include <string>
#include <vector>

#include "profiler/model/layer.h"

namespace torch::optim {
class Optimizer;
}

namespace mptune {

/// What an optimizer keeps, by parameter: {"fc.weight": {"exp_avg": tensor, "step": tensor}}, named as in Python. On the host.
using OptimizerState = std::map<std::string, std::map<std::string, at::Tensor>>;

/// Copies what an optimizer (SGD, Adam, AdamW) keeps for these of its parameters; those that it has not stepped yet are left out.
/// Throws Error for other optimizers.
[[nodiscard]] OptimizerState optimizer_state(const torch::optim::Optimizer& optimizer, const std::vector<NamedTensor>& parameters);

/// Gives an optimizer such a state, in place of its own: entries of other parameters are ignored. Throws Error for other optimizers, and
/// for a state of another kind of optimizer or of tensors of other shapes.
void set_optimizer_state(torch::optim::Optimizer& optimizer, const std::vector<NamedTensor>& parameters, const OptimizerState& state);

}  // namespace mptune
