#pragma once

#include <vector>

namespace mptune::planner {

/// What a family's work takes, in nanoseconds: sums over the layers before an index.
struct FamilyWork {
  std::vector<double> out;      ///< least forward of a micro-batch
  std::vector<double> in;       ///< part of a micro-batch's least backward that the stage before waits for
  std::vector<double> all;      ///< forward and backward of all micro-batches
  std::vector<double> back;     ///< backward of all micro-batches
  std::vector<double> send;     ///< [layer]: least copy of a micro-batch's output to a stage that begins there; infinite where none may
  std::vector<double> send_in;  ///< [layer]: the same for the gradient that comes back
  double action = 0;            ///< fixed cost of an action
  double microbatches = 1;
  bool sender_copies = false;  ///< copies between stages take time of the device that sends
};

/// Returns a lower bound of the step of plans whose stages run on one device each, in any order of the actions, over all cuts [ns].
///
/// For each stage s two paths exist in every order. In one, work of s, and of later stages on its device, begins after a micro-batch is
/// through the layers before s, and ends (unless backward is split) before its gradient is back through them. In the other, gradients of s,
/// and of earlier stages on its device, begin after a micro-batch is through the whole model and back through the layers after s. Copies
/// that a device makes itself are a part of its work. Requires: a chain; where branches run side by side, neither path holds.
/// A weighted mean of the paths is no longer than the longest of them. Its least length over all cuts is a shortest path over the layers,
/// O(stages * layers). The weights are those that are best for layers as small as one likes (packing.h), but the bound holds for any
/// weights.
/// `devices` has the device of each stage. The call takes as long as the simplex method on 2 * stages rows: microseconds for 16 stages,
/// milliseconds for 96.
[[nodiscard]] double least_step_ns(const std::vector<int>& devices, const FamilyWork& work, bool splits);

/// Returns cuts on which the longest of these paths is short: the best that changes of two rounds of stages (two_rounds.h) and then of one
/// cut or of two neighbours by few layers find. `evenness` is as in cuts_rater.h; 0: no stage has too much work. Requires: `cuts`
/// ascending, where stages may begin.
[[nodiscard]] std::vector<int> suited_cuts(const std::vector<int>& devices, const FamilyWork& work, bool splits, double evenness,
                                           std::vector<int> cuts);

}  // namespace mptune::planner
