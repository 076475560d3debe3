#pragma once

#include "planner/schedule/layout.h"

namespace mptune::planner {

/// Rows of schedules that do not depend on costs, for D devices and m micro-batches. Schedules defined for certain numbers of micro-batches
/// only (a multiple of D, at least 2 D) are made for the next such number; then the actions of surplus micro-batches are removed, which
/// causes no deadlock.

/// Interleaved 1F1B (Megatron-LM, arXiv 2104.04473): stage s on device s mod D, micro-batches in groups through all the stages of a device
/// before the next group. Megatron's groups have D micro-batches. Requires: `group` at least D.
[[nodiscard]] Rows interleaved_rows(int devices, int stages, int microbatches, int group);

/// Offsets of a micro-batch in a V of two stages per device, in units of an action. The pattern repeats every 6 units: four actions and two
/// weight gradients per micro-batch (arXiv 2405.15362).
struct VPattern {
  int down = 1;  ///< from a device to the next: forward of the first D stages, backward of the last D
  int up = 1;    ///< from a device to the one before
};
/// Stage s on device s, stage 2 D - 1 - s on device s. {1, 1} saves a third of 1F1B's activations (V-Min), {2, 1} half (V-Half), {4, 2} all
/// (V-ZB).
[[nodiscard]] Rows v_rows(int devices, int microbatches, const VPattern& pattern);

/// ZB-V's order (arXiv 2401.10241) on the same map: forwards until a device holds 2 D of its stages' micro-batches, then an input gradient
/// and a forward in turn.
[[nodiscard]] Rows zero_bubble_v_order(int devices, int microbatches);

/// DualPipeV (DeepSeek-AI, DualPipe): the same map. Where it runs a forward beside a backward, the forward comes first.
[[nodiscard]] Rows dual_pipe_v_rows(int devices, int microbatches);

}  // namespace mptune::planner
