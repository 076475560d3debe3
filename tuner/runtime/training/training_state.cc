#include "tuner/runtime/training/training_state.h"

#include <ATen/ATen.h>
#include <torch/optim/optimizer.h>

#include <map>
#include <set>
#include <string>
#include <utility>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "tuner/runtime/training/state_message.h"

namespace mptune {
namespace {

std::vector<NamedTensor> on_host(const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> copies;
  for (const NamedTensor& named : tensors)
    copies.push_back({named.name, named.tensor.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true).contiguous()});
  return copies;
}

void check_count(const Pipeline& pipeline, const Optimizers& optimizers) {
  const int stages = pipeline.plan().num_stages();
  if (optimizers.size() != 1 && optimizers.size() != as_index(stages))
    throw Error(std::to_string(optimizers.size()) + " optimizers for " + std::to_string(stages) + " stages", "training_state",
                "pass one for all parameters, or one per stage");
}

/// Returns which parameters each optimizer has.
std::vector<std::vector<NamedTensor>> parameters_by_optimizer(const Pipeline& pipeline, const Optimizers& optimizers) {
  check_count(pipeline, optimizers);
  if (optimizers.size() == 1) return {pipeline.named_parameters()};
  const int stages = pipeline.plan().num_stages();
  std::vector<std::vector<NamedTensor>> by_stage;
  for (int stage = 0; stage < stages; ++stage) by_stage.push_back(pipeline.named_parameters(stage));
  return by_stage;
}

/// Returns the tensors of the stages that this rank leads. Over all ranks, each stage comes once.
std::vector<NamedTensor> led(const Pipeline& pipeline, std::vector<NamedTensor> (Pipeline::*tensors_of)(int stage) const) {
  std::vector<NamedTensor> all;
  for (int stage = 0; stage < pipeline.plan().num_stages(); ++stage)
    if (pipeline.leads(stage))
      for (const NamedTensor& named : (pipeline.*tensors_of)(stage)) all.push_back(named);
  return all;
}

using TensorsByName = std::map<std::string, at::Tensor>;

/// Returns the given tensors by name. `all`: the model has no other tensors than `own`.
TensorsByName checked(const std::vector<NamedTensor>& own, const std::vector<NamedTensor>& given, bool all) {
  constexpr const char* kRemedy = "go on with the model of the first run";
  TensorsByName by_name;
  for (const NamedTensor& named : given) by_name[named.name] = named.tensor;
  for (const NamedTensor& named : own) {
    const auto found = by_name.find(named.name);
    if (found == by_name.end()) throw Error("the state lacks a tensor of the model", named.name, kRemedy);
    if (found->second.sizes() != named.tensor.sizes() || found->second.scalar_type() != named.tensor.scalar_type())
      throw Error("the state's tensor has another shape or type than the model's", named.name, kRemedy);
  }
  if (all && by_name.size() > own.size()) {
    for (const NamedTensor& named : own) by_name.erase(named.name);
    throw Error("the model lacks a tensor of the state", by_name.begin()->first, kRemedy);
  }
  return by_name;
}

/// Returns the state of all ranks on the first rank.
TrainingState of_all_ranks(const Pipeline& pipeline, TrainingState own) {
  const std::vector<Tensors> by_rank = pipeline.on_first_rank(tuner::state_tensors(own));
  for (std::size_t rank = 1; rank < by_rank.size(); ++rank) {
    TrainingState other = tuner::state_from(by_rank[rank]);
    own.parameters.insert(own.parameters.end(), other.parameters.begin(), other.parameters.end());
    own.buffers.insert(own.buffers.end(), other.buffers.begin(), other.buffers.end());
    own.optimizer.merge(other.optimizer);
  }
  return own;
}

void copy(const std::vector<NamedTensor>& to, const TensorsByName& from) {
  const at::NoGradGuard no_gradients;
  for (const NamedTensor& named : to) at::Tensor(named.tensor).copy_(from.at(named.name));
}

}  // namespace

void set_learning_rate(const Optimizers& optimizers, double rate) {
  for (torch::optim::Optimizer* optimizer : optimizers)
    if (optimizer != nullptr)
      for (torch::optim::OptimizerParamGroup& group : optimizer->param_groups()) group.options().set_lr(rate);
}

TrainingState training_state(const Pipeline& pipeline, const Optimizers& optimizers) {
  check_count(pipeline, optimizers);
  const std::vector<NamedTensor> parameters = led(pipeline, &Pipeline::named_parameters);
  TrainingState state{pipeline.steps(), on_host(parameters), on_host(led(pipeline, &Pipeline::named_buffers)), {}};
  for (const torch::optim::Optimizer* optimizer : optimizers)
    if (optimizer != nullptr) state.optimizer.merge(optimizer_state(*optimizer, parameters));
  return pipeline.has_all_stages() ? state : of_all_ranks(pipeline, std::move(state));
}

TrainingState state_of_first_rank(const Pipeline& pipeline, const TrainingState& state) {
  return pipeline.has_all_stages() ? state : tuner::state_from(pipeline.from_first_rank(tuner::state_tensors(state)));
}

void set_training_state(Pipeline& pipeline, const Optimizers& optimizers, const TrainingState& state) {
  const bool all = pipeline.has_all_stages();
  const std::vector<NamedTensor> parameters = pipeline.named_parameters(), buffers = pipeline.named_buffers();
  const TensorsByName parameters_given = checked(parameters, state.parameters, all), buffers_given = checked(buffers, state.buffers, all);
  const auto by_optimizer = parameters_by_optimizer(pipeline, optimizers);
  for (std::size_t i = 0; i < optimizers.size(); ++i)
    if (optimizers[i] != nullptr) set_optimizer_state(*optimizers[i], by_optimizer[i], state.optimizer);
  copy(parameters, parameters_given);
  copy(buffers, buffers_given);
  pipeline.set_steps(state.steps);
}

}  // namespace mptune
