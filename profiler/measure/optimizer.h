#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/types.h>

namespace torch::optim {
class Optimizer;
}

namespace mptune {

/// Makes an optimizer of `--optimizer`: sgd, adam, adamw. `learning_rate` 0 is the default (0.01 for sgd, 0.001 for the others).
/// Throws Error for another name or a rate that is negative or not finite.
[[nodiscard]] std::unique_ptr<torch::optim::Optimizer> make_optimizer(const std::string& name, double learning_rate,
                                                                      const std::vector<at::Tensor>& parameters);

/// Bytes of optimizer state per byte of parameters.
[[nodiscard]] double optimizer_state_factor(const std::string& name);

}  // namespace mptune
