#pragma once

#include <memory>
#include <vector>

#include <torch/types.h>

#include "profiler/measure/training_kinds.h"

namespace torch::optim {
class Optimizer;
}

namespace mptune::profiler {

/// `learning_rate` 0 is the default (0.01 for sgd, 0.001 for the others). Throws Error for a rate that is negative or not finite.
[[nodiscard]] std::unique_ptr<torch::optim::Optimizer> make_optimizer(OptimizerKind kind, double learning_rate,
                                                                      const std::vector<at::Tensor>& parameters);

/// Bytes of optimizer state per byte of parameters.
[[nodiscard]] double optimizer_state_factor(OptimizerKind kind);

}  // namespace mptune::profiler
