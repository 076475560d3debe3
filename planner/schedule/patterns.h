#pragma once

#include "mptune/planner/schedule/layout.h"

namespace mptune {

/// Rows of schedules whose form does not depend on costs, for D devices and m micro-batches. Forms that ask for a number of micro-batches
/// (a multiple of D, at least 2 D) are made for as many and lose the actions of those that do not exist: what is left of an order in
/// which no device waits for ever is one.

/// Interleaved 1F1B (Megatron-LM, arXiv 2104.04473): stage s on device s mod D, micro-batches in groups of D through all the stages of a
/// device before the next group.
[[nodiscard]] Rows interleaved_rows(int devices, int stages, int microbatches);

/// How fast micro-batches go through a V of two stages per device, in units of an action: a pattern that repeats every 6 units, four
/// actions and two weight gradients per micro-batch (arXiv 2405.15362).
struct VPattern {
  int down = 1;  ///< from device to device towards the last, forward of the first D stages, backward of the last D
  int up = 1;    ///< and back
};
/// Stage s on device s, stage 2 D - 1 - s on device s. {1, 1} keeps a third of 1F1B's bytes (V-Min), {2, 1} half (V-Half), {4, 2} all
/// (V-ZB).
[[nodiscard]] Rows v_rows(int devices, int microbatches, const VPattern& pattern);

/// ZB-V's order (arXiv 2401.10241) on the same map: forwards until a device keeps 2 D of its stages' micro-batches, then an input gradient
/// and a forward in turn.
[[nodiscard]] Rows zero_bubble_v_order(int devices, int microbatches);

/// DualPipeV (DeepSeek-AI, DualPipe): the same map. Where it runs a forward beside a backward, the forward comes first.
[[nodiscard]] Rows dual_pipe_v_rows(int devices, int microbatches);

}  // namespace mptune
