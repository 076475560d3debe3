#pragma once

#include <memory>
#include <vector>

#include <torch/types.h>

#include "profiler/base/optimizer_choice.h"

namespace torch::optim {
class Optimizer;
}

namespace mptune::profiler {

/// Makes an optimizer. `learning_rate` 0 is the default (0.01 for sgd, 0.001 for the others). Parameters that do not decay are in a second
/// group. Throws Error for a rate that is negative or not finite.
[[nodiscard]] std::unique_ptr<torch::optim::Optimizer> make_optimizer(const OptimizerChoice& choice, double learning_rate,
                                                                      const std::vector<at::Tensor>& parameters);

}  // namespace mptune::profiler
