#include "profiler/measure/optimizer.h"

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <cmath>

#include "profiler/base/error.h"

namespace mptune::profiler {

namespace {

template <class Options>
Options adam_options(const OptimizerChoice& choice, double rate) {
  return Options(rate).betas({choice.beta1, choice.beta2}).eps(choice.epsilon).weight_decay(weight_decay_of(choice));
}

/// Puts parameters that decay first. A single group if all parameters decay alike: torch keeps their order.
template <class Optimizer, class Options>
std::unique_ptr<torch::optim::Optimizer> in_groups(const OptimizerChoice& choice, const Options& options,
                                                   const std::vector<at::Tensor>& parameters) {
  if (choice.decays_vectors || options.weight_decay() == 0) return std::make_unique<Optimizer>(parameters, options);
  std::vector<at::Tensor> decaying, others;
  for (const at::Tensor& parameter : parameters) (parameter.dim() < 2 ? others : decaying).push_back(parameter);
  Options without = options;
  without.weight_decay(0);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(decaying);
  groups.emplace_back(others, std::make_unique<Options>(without));
  return std::make_unique<Optimizer>(groups, options);
}

}  // namespace

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const OptimizerChoice& choice, double learning_rate,
                                                        const std::vector<at::Tensor>& parameters) {
  if (!std::isfinite(learning_rate) || learning_rate < 0)
    throw Error("the learning rate must be positive", "--lr", "give a number such as 0.01");
  const double rate = learning_rate > 0 ? learning_rate : choice.kind == OptimizerKind::sgd ? 0.01 : 0.001;
  switch (choice.kind) {
    case OptimizerKind::sgd:
      return in_groups<torch::optim::SGD>(
          choice, torch::optim::SGDOptions(rate).momentum(choice.momentum).nesterov(choice.nesterov).weight_decay(weight_decay_of(choice)),
          parameters);
    case OptimizerKind::adam:
      return in_groups<torch::optim::Adam>(choice, adam_options<torch::optim::AdamOptions>(choice, rate), parameters);
    case OptimizerKind::adamw:
      break;
  }
  return in_groups<torch::optim::AdamW>(choice, adam_options<torch::optim::AdamWOptions>(choice, rate), parameters);
}

}  // namespace mptune::profiler
