#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace mptune {

/// What one micro-batch costs on a stage, in whole nanoseconds and bytes. The defaults are the textbook's: every part takes one unit,
/// copies take none, a micro-batch weighs one byte.
struct StageCosts {
  std::int64_t forward_ns = 1;
  std::int64_t backward_ns = 2;        ///< of both gradients at once
  std::int64_t backward_input_ns = 1;  ///< of the split backward
  std::int64_t backward_weight_ns = 1;
  std::int64_t kept_bytes = 1;        ///< from the forward to the end of the backward
  std::int64_t held_bytes = 1;        ///< between the gradients of inputs and of weights; more than before where gradients join them
  std::int64_t send_output_ns = 0;    ///< copy of the output to the next stage, where that is on another device
  std::int64_t send_gradient_ns = 0;  ///< copy of the input's gradient to the stage before, likewise
  std::int64_t recompute_ns = 0;      ///< at the start of backward_ns and backward_input_ns: what does not wait for the output's gradient;
                                      ///< what is computed again while the gradient goes through the stage is a part of both, not of this
  bool operator==(const StageCosts&) const = default;
};

/// What schedules are made from, where they look at costs.
struct ScheduleCosts {
  static constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
  std::vector<StageCosts> stages;
  std::vector<std::int64_t> free_bytes;  ///< per device of the plan: for what is kept; empty: no limit on any device
  bool operator==(const ScheduleCosts&) const = default;
};

}  // namespace mptune
