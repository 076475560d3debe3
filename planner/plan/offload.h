#pragma once

#include <vector>

#include "planner/plan/plan.h"

namespace mptune::planner {

/// One micro-batch whose saved activations lie in host memory for a while. A position is the index of an action in its device's row:
///
///     position     forward    +1       +2     ...    -2       -1      backward
///     row            F3       F4       B0     ...    B1       F6         B3
///     copies                [to the host]                  [back]
///     on the device  =======  =======                       =======   =======
///
/// The copy to the host begins when the forward has ended; the second action after the forward begins when this copy has ended. The copy
/// back begins when the action before the backward (or the input gradients) begins; the backward begins when this copy has ended. In
/// between, the memory on the device is free.
struct Offloaded {
  int stage = 0;
  int microbatch = 0;
  int forward = 0;
  int backward = 0;
  [[nodiscard]] int freed() const { return forward + 2; }     ///< the first action that finds the memory free
  [[nodiscard]] int fetched() const { return backward - 1; }  ///< the action during which it is copied back
  bool operator==(const Offloaded&) const = default;
};

/// Returns what a device's row offloads, by position of the forwards: the micro-batches of its stages with `offload`, except those whose
/// memory would be free during no action. Requires: a valid plan and schedule.
[[nodiscard]] std::vector<Offloaded> offloaded(const Plan& plan, int device);

/// True if a stage of the plan has `offload`.
[[nodiscard]] bool offloads(const Plan& plan);

}  // namespace mptune::planner
