#pragma once

#include <cstdint>
#include <vector>

#include "planner/schedule/layout.h"

namespace mptune::planner {

/// How a free device chooses among the actions that are ready.
struct GreedyPolicy {
  enum class First { backward, forward, alternate };
  First first = First::backward;      ///< what runs where an input gradient and a forward are both ready
  bool split = true;                  ///< split backward: weight gradients fill idle time
  bool late_stages_forward = true;    ///< where a device has several stages, the last one is first in forward
  bool late_stages_backward = false;  ///< where a device has several stages, the last one is first in backward
  int patience_percent = 0;           ///< a device idles for an action about to be ready, up to this percentage of a weight gradient's time
  bool idle_as_others = false;        ///< it also idles longer, while it stays less idle than the idlest device
  std::vector<int> in_flight;         ///< per stage: most micro-batches of a replica between forward and input gradient; empty: any number
  std::vector<std::int64_t> limit;    ///< per device: most bytes it may keep
};

/// Returns the rows of a list schedule: all devices advance in time, and each decides when it is free. Micro-batches of a stage stay in
/// order. A forward waits if it would leave an older micro-batch too little memory on its device, so the schedule never deadlocks. Returns
/// no rows where one micro-batch alone exceeds a limit.
[[nodiscard]] Rows greedy_rows(const Layout& layout, const ScheduleCosts& costs, const GreedyPolicy& policy);

}  // namespace mptune::planner
