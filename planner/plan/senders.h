#pragma once

#include <vector>

namespace mptune::planner {

/// A stage that reads a tensor that an earlier stage computes.
struct StageReader {
  int stage = 0;
  bool several = false;  ///< more than one of its operators may read the tensor
};

/// Returns the stages after `maker_stage` that read the tensor, ascending. `readers` are the layers that read it, `several` the layers of
/// which more than one operator may read it, both ascending. `stage_of` gives the stage of each layer.
[[nodiscard]] std::vector<StageReader> stage_readers(int maker_stage, const std::vector<int>& readers, const std::vector<int>& several,
                                                     const std::vector<int>& stage_of);

/// Returns, for each reader of a tensor, the stage that sends it the tensor and to which it sends the gradient. That is the stage that
/// computes the tensor, unless sums of gradients would differ from those of the un-pipelined step. That step adds the operators' terms one
/// by one, those of later layers first. A stage with several operators that read the tensor must therefore start from the sum of the stages
/// after it, and hands the tensor on to them. In this example stage 2 has several operators that read the tensor, and the other stages have
/// one:
///
///     computed by 0  -->  1              gradients:  ((of 3 and 4) + 2's first + 2's second) + 1's
///            \---------->  2  -->  3
///                           \---->  4
///
/// Stages 1, 2 and 3 with one operator each would not wait for one another. Requires: readers by ascending stage, `maker` before them.
[[nodiscard]] std::vector<int> senders(int maker, const std::vector<StageReader>& readers);

}  // namespace mptune::planner
