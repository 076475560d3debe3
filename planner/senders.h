#pragma once

#include <vector>

namespace mptune::planner {

/// A stage that reads a tensor which an earlier stage computes.
struct StageReader {
  int stage = 0;
  bool several = false;  ///< more than one of its operators may read the tensor
};

/// The stages behind the maker's one that read a tensor, ascending. `readers`, `several`: layers, ascending. `stage_of`: by layer.
[[nodiscard]] std::vector<StageReader> stage_readers(int maker_stage, const std::vector<int>& readers, const std::vector<int>& several,
                                                     const std::vector<int>& stage_of);

/// The stage that sends a tensor to each of its readers, and is sent the gradients. It is the one that computes the tensor, unless sums of
/// gradients would differ from those of the un-pipelined step. That step adds the operators' terms one by one, those of later layers first.
/// A stage with several such operators must therefore start from the sum of the stages behind it, and hands the tensor on to them. Where
/// stage 2 has several operators that read it, and the other stages have one:
///
///     computed by 0  -->  1              gradients:  ((of 3 and 4) + 2's first + 2's second) + 1's
///            \---------->  2  -->  3
///                           \---->  4
///
/// Of stages 1, 2 and 3 with an operator each, none waits for another. Requires: readers by ascending stage, `maker` before them.
[[nodiscard]] std::vector<int> senders(int maker, const std::vector<StageReader>& readers);

}  // namespace mptune::planner
