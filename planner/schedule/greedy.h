#pragma once

#include <cstdint>
#include <vector>

#include "mptune/planner/schedule/layout.h"

namespace mptune {

/// How a device that is free chooses among what it could run now.
struct GreedyPolicy {
  enum class First { backward, forward, alternate };
  First first = First::backward;      ///< of an input gradient and a forward that could both run
  bool split = true;                  ///< gradients of inputs and weights apart: weights fill what would be idle
  bool late_stages_forward = true;    ///< of several stages on a device, the last first in forward
  bool late_stages_backward = false;  ///< and in backward
  int patience_percent = 0;           ///< of a weight gradient's time: a device idles that long rather than let what comes wait
  bool idle_as_others = false;        ///< or as long as that leaves it less idle than the idlest device
  std::vector<int> in_flight;         ///< per stage: micro-batches that a replica has forward and not yet input gradients of; empty: any
  std::vector<std::int64_t> limit;    ///< per device: bytes it may keep
};

/// Rows of a list schedule: all devices advance in time, each decides when it is free. Micro-batches of a stage stay in order. Forwards
/// that would leave an older micro-batch without room on their device wait, so that it never blocks itself. Returns no rows where one
/// micro-batch alone exceeds a limit.
[[nodiscard]] Rows greedy_rows(const Layout& layout, const ScheduleCosts& costs, const GreedyPolicy& policy);

}  // namespace mptune
