#pragma once

#include <map>
#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "product_counter.h"
#include "profiler/model/layers/model.h"

namespace mptune::testing {

using TensorsByName = std::map<std::string, at::Tensor>;

/// What the un-pipelined loop over the micro-batches computes, gradients kept apart. Layers of a stage share tied parameters, those of
/// different stages have copies.
struct StageLoop {
  std::vector<std::vector<TensorsByName>> gradients;  ///< [stage][micro-batch]
  TensorsByName buffers;                              ///< after the step's statistics were committed
  double loss = 0;
  ProductCounter::Counts forward, backward;  ///< of the step; empty where no ProductCounter lives
};

/// Stages and micro-batches are those of the plan. `step`: what random layers draw for.
[[nodiscard]] StageLoop run_stage_loop(const Model& model, const Plan& plan, const Batch& batch, std::int64_t step = 0);

/// The gradients of a step: each replica's micro-batches in ascending order, then the replicas, then the stages that share a parameter.
[[nodiscard]] TensorsByName sum_ascending(const StageLoop& loop, const Plan& plan);

}  // namespace mptune::testing
