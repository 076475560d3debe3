#pragma once

#include <vector>

#include "profiler/trace/formats/pipeline_operations.h"
#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// An event of a pipeline's timeline and the operation that it was made from (for a copy: its send).
struct PipelineItem {
  Event event{};
  PipelineOperation operation{};
  int receiver = -1;       ///< of a copy, the receiving device
  int group = -1;          ///< collectives: the same number for all members
  bool is_gather = false;  ///< collectives: true if it gathers parameters, false if it reduces gradients
};

/// Returns the edges between items, as described at read_pipeline_timeline. `from` holds the operations that the items were made from.
/// Edges lead from earlier to later items, so they form no cycle; edges that would lead backwards are counted in `unmatched`.
/// A copy without a micro-batch gets the micro-batch of its computation.
/// Requires: items ordered by start. Throws Error: collectives that could have more than 2^24 edges.
[[nodiscard]] std::vector<Edge> pipeline_edges(std::vector<PipelineItem>& items, const PipelineOperations& from, std::int64_t& unmatched);

}  // namespace mptune::profiler
