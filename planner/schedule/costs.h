#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace mptune::planner {

/// Costs of one micro-batch on a stage, in whole nanoseconds and bytes. The defaults are the textbook's: forward and each half of the
/// backward take one unit, copies take none, a micro-batch saves one byte.
struct StageCosts {
  std::int64_t forward_ns = 1;
  std::int64_t backward_ns = 2;        ///< of both gradients at once
  std::int64_t backward_input_ns = 1;  ///< of the split backward
  std::int64_t backward_weight_ns = 1;
  std::int64_t saved_activation_bytes = 1;  ///< from the forward to the end of the backward
  std::int64_t held_bytes = 1;              ///< between the gradients of inputs and of weights; more than before where gradients join them
  std::int64_t send_output_ns = 0;    ///< copy of the output to the next stage, where that is on another device; in a graph the longest
  std::int64_t send_gradient_ns = 0;  ///< copy of the input's gradient to the stage before, likewise
  std::int64_t recompute_ns = 0;      ///< at the start of backward_ns and backward_input_ns: what does not wait for the output's gradient;
                                      ///< what is computed again while the gradient goes through the stage is a part of both, not of this
  bool operator==(const StageCosts&) const = default;
};

/// Copies between two stages of a graph.
struct LinkCosts {
  int front = 0;  ///< stage
  int back = 0;
  std::int64_t output_ns = 0;    ///< copy of the front stage's output, where the back stage is on another device
  std::int64_t gradient_ns = 0;  ///< copy of its gradient, likewise
  bool needs_gradient = true;    ///< false: nothing comes back
  bool operator==(const LinkCosts&) const = default;
};

/// The costs that generators of schedules see.
struct ScheduleCosts {
  static constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
  std::vector<StageCosts> stages;
  std::vector<std::int64_t> free_bytes = {};  ///< per device of the plan: for saved activations; empty: no limit on any device
  std::vector<LinkCosts> links = {};          ///< which stages read the outputs of which; empty: each those of the stage before it
  bool operator==(const ScheduleCosts&) const = default;
};

}  // namespace mptune::planner
