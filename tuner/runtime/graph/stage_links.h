#pragma once

#include <utility>
#include <vector>

#include "planner/plan/plan.h"
#include "profiler/model/layers/model_flow.h"

namespace mptune::tuner {

/// What one stage sends to a later one in each micro-batch. The gradients come back the same way. For two branches and a head:
///
///     stage 0, first branch  -->  stage 2, head  <--  stage 1, second branch, which reads inputs of the model
struct StageLink {
  int front = 0;
  int back = 0;
  bool everything = false;                 ///< all that `front` returns is all that `back` takes
  std::vector<std::pair<int, int>> slots;  ///< else: index of a tensor among what `front` returns, and among what `back` takes
  bool operator==(const StageLink&) const = default;
};

/// What a stage takes and returns, and what of it comes from the batch.
struct StageTensors {
  bool takes_batch = false;                ///< it takes the model's inputs as they are
  std::vector<std::pair<int, int>> batch;  ///< else: index of a model input that it reads, and of its place among what the stage takes
  int taken = 0;                           ///< number of tensors that the stage takes; 0: as many as it is sent
  int returned = 0;                        ///< number of tensors that it returns; 0: not known
  bool operator==(const StageTensors&) const = default;
};

/// Returns the links by ascending front, then back stage. planner/plan/senders.h says who sends a tensor to a stage that reads it; a tensor
/// that passes through a stage unread is not sent there. Requires: stages that cover the layers of the flow.
[[nodiscard]] std::vector<StageLink> stage_links(const profiler::ModelFlow& flow, const std::vector<Stage>& stages);
/// Returns the tensors of each stage, by stage. The first stage takes all inputs of the model.
[[nodiscard]] std::vector<StageTensors> stage_tensors(const profiler::ModelFlow& flow, const std::vector<Stage>& stages);

}  // namespace mptune::tuner
