#pragma once

#include <utility>
#include <vector>

namespace mptune::profiler {

/// Returns the model chunk and micro-batch of the forwards of a rank in an interleaved schedule, in Megatron-LM's order (get_schedule_table
/// in megatron/core/pipeline_parallel/schedules.py): groups of as many micro-batches as there are ranks pass through chunk after chunk.
/// With one chunk, they are in ascending order. Backwards come in the same order of micro-batches, from the last chunk to the first.
///
///     2 ranks, 2 chunks, 3 micro-batches:   chunk 0 0 1 1 0 1   micro-batch 0 1 0 1 2 2
///
/// Returns at least the first `count` of them, or all if there are fewer.
[[nodiscard]] std::vector<std::pair<int, int>> looped_order(int ranks, int chunks, int microbatches, int count);

}  // namespace mptune::profiler
