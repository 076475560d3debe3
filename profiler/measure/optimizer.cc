#include "profiler/measure/optimizer.h"

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <cmath>

#include "profiler/base/error.h"

namespace mptune::profiler {

std::unique_ptr<torch::optim::Optimizer> make_optimizer(OptimizerKind kind, double learning_rate,
                                                        const std::vector<at::Tensor>& parameters) {
  if (!std::isfinite(learning_rate) || learning_rate < 0)
    throw Error("the learning rate must be positive", "--lr", "give a number such as 0.01");
  const double rate = learning_rate > 0 ? learning_rate : kind == OptimizerKind::sgd ? 0.01 : 0.001;
  switch (kind) {
    case OptimizerKind::sgd:
      return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(rate));
    case OptimizerKind::adam:
      return std::make_unique<torch::optim::Adam>(parameters, torch::optim::AdamOptions(rate));
    case OptimizerKind::adamw:
      break;
  }
  return std::make_unique<torch::optim::AdamW>(parameters, torch::optim::AdamWOptions(rate));
}

double optimizer_state_factor(OptimizerKind kind) {
  return kind == OptimizerKind::sgd ? 0 : 2;
}

}  // namespace mptune::profiler
