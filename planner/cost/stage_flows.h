#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/cost_model.h"

namespace mptune::planner {

/// What one stage sends to a later one in each micro-batch, and the gradients that come back. In a chain each stage sends to the next. In a
/// graph of layers a tensor goes from the stage that computes it to each stage that reads it, and past stages that do not read it
/// (senders.h says which readers hand it on):
///
///     stage 0, first branch  -->  stage 2, head  <--  stage 1, second branch
struct StageFlow {
  int front = 0;
  int back = 0;
  TensorSize outputs;
  TensorSize gradients;
  bool needs_gradient = true;  ///< false: no gradient comes back
  [[nodiscard]] std::int64_t bytes(int samples, bool of_gradients) const { return (of_gradients ? gradients : outputs).bytes(samples); }
};

/// Returns the flows by back stage, then front stage. Requires: stages that cover the layers in order.
[[nodiscard]] std::vector<StageFlow> stage_flows(const CostModel& cost, const std::vector<Stage>& stages);

/// Gives stage `s` the layers [first, last), and lets the next stage begin at `last`. In a chain, the bytes of a device that has this stage
/// alone are then right, whatever layers the other stages have.
void set_layers(Plan& plan, int s, int first, int last);

}  // namespace mptune::planner
