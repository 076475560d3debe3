#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace mptune::planner {

/// Costs of one micro-batch on a stage, in whole nanoseconds and bytes. The defaults are the textbook's: forward and each half of the
/// backward take one unit, copies take none, a micro-batch saves one byte.
struct StageCosts {
  std::int64_t forward_ns = 1;
  std::int64_t backward_ns = 2;        ///< both gradients at once
  std::int64_t backward_input_ns = 1;  ///< gradients of inputs in a split backward
  std::int64_t backward_weight_ns = 1;
  std::int64_t saved_activation_bytes = 1;  ///< from the forward to the end of the backward
  std::int64_t held_bytes = 1;              ///< between gradients of inputs and of weights; more than saved where output gradients join
  std::int64_t send_output_ns = 0;    ///< copy of the output to the next stage, where that is on another device; in a graph the longest
  std::int64_t send_gradient_ns = 0;  ///< copy of the gradient of the input to the stage before; conditions as for send_output_ns
  std::int64_t recompute_ns = 0;      ///< part of backward_ns and backward_input_ns: recomputation before the output's gradient is needed;
                                      ///< recomputation while the gradient goes through the stage is a part of both, but not of this
  bool operator==(const StageCosts&) const = default;
};

/// Copies between two stages of a graph.
struct LinkCosts {
  int front = 0;  ///< index of the stage that makes the output; `back` reads it
  int back = 0;
  std::int64_t output_ns = 0;    ///< copy of the front stage's output, where the back stage is on another device
  std::int64_t gradient_ns = 0;  ///< copy of the output's gradient, where the back stage is on another device
  bool needs_gradient = true;    ///< false: no gradient comes back
  bool operator==(const LinkCosts&) const = default;
};

/// The costs that generators of schedules see.
struct ScheduleCosts {
  static constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
  std::vector<StageCosts> stages;
  std::vector<std::int64_t> free_bytes = {};  ///< saved activations that fit, per device of the plan; empty: no limit on any device
  std::vector<LinkCosts> links = {};          ///< which stages read the outputs of which; empty: each stage reads the one before it
  bool operator==(const ScheduleCosts&) const = default;
};

}  // namespace mptune::planner
