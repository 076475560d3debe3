#pragma once

#include "planner/schedule/layout.h"

namespace mptune::planner {

/// Rows of schedules that do not depend on costs, for D devices and m micro-batches. Schedules that are defined only for certain numbers of
/// micro-batches (a multiple of D, at least 2 D) are made for the next number of this kind. Then the actions of surplus micro-batches are
/// removed, which causes no deadlock.

/// Returns interleaved 1F1B (Megatron-LM, arXiv 2104.04473): stage s is on device s mod D, and a group of micro-batches passes through all
/// the stages of a device before the next group. Megatron's groups have D micro-batches. Requires: `group` at least D.
[[nodiscard]] Rows interleaved_rows(int devices, int stages, int microbatches, int group);

/// Time between actions of a micro-batch in a V of two stages per device, in units of one action. The pattern repeats every 6 units: four
/// actions and two weight gradients per micro-batch (arXiv 2405.15362).
struct VPattern {
  int down = 1;  ///< from a device to the next: forward of the first D stages, backward of the last D
  int up = 1;    ///< from a device to the one before
};
/// Returns rows with stages s and 2 D - 1 - s on device s. {1, 1} keeps a third of the activations that 1F1B keeps (V-Min), {2, 1} half
/// (V-Half), {4, 2} all (V-ZB).
[[nodiscard]] Rows v_rows(int devices, int microbatches, const VPattern& pattern);

/// Returns ZB-V's order (arXiv 2401.10241) on the stage map of v_rows(): forwards until a device holds 2 D of its stages' micro-batches,
/// then an input gradient and a forward in turn.
[[nodiscard]] Rows zero_bubble_v_order(int devices, int microbatches);

/// Returns DualPipeV (DeepSeek-AI, DualPipe) on the stage map of v_rows(). Where it runs a forward beside a backward, the forward comes
/// first.
[[nodiscard]] Rows dual_pipe_v_rows(int devices, int microbatches);

}  // namespace mptune::planner
