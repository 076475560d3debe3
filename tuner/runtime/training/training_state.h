#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tuner/runtime/pipeline.h"
#include "tuner/runtime/training/gradient_scaler.h"
#include "tuner/runtime/training/optimizer_state.h"

namespace mptune {

/// All that a training needs to go on after a step, under any plan: with equal micro-batches its losses are those of the training that was
/// not interrupted. Tensors are copies on the host. What random layers draw depends on the seed and the number of steps.
struct TrainingState {
  std::int64_t steps = 0;  ///< completed
  std::vector<NamedTensor> parameters, buffers;
  OptimizerState optimizer;
  std::optional<LossScale> loss_scale = {};  ///< for fp16: kept by the caller, who has the scaler
};

/// The optimizers of a training: one per stage, or one for all parameters. Optimizers are null for stages of other ranks.
using Optimizers = std::vector<torch::optim::Optimizer*>;

/// Sets the learning rate of every parameter group. Call it between two steps only.
void set_learning_rate(const Optimizers& optimizers, double rate);

/// Returns the state; call it between two steps only. With several ranks every rank calls it: the first gets the state of all stages, each
/// other one that of the stages that it leads. Throws what optimizer_state() throws.
[[nodiscard]] TrainingState training_state(const Pipeline& pipeline, const Optimizers& optimizers);
/// Sets the state. With several ranks each gives the state of all stages. Throws Error, and changes nothing, where names or shapes differ;
/// also throws what set_optimizer_state() throws.
void set_training_state(Pipeline& pipeline, const Optimizers& optimizers, const TrainingState& state);

/// Returns on every rank the state that rank 0 gives; all ranks call it. Without ranks, returns what is given.
[[nodiscard]] TrainingState state_of_first_rank(const Pipeline& pipeline, const TrainingState& state);

}  // namespace mptune
