#pragma once

#include <vector>

#include "mptune/profiler/formats/pipeline_operations.h"
#include "mptune/profiler/trace/trace.h"

namespace mptune {

/// An event of a pipeline's timeline and where it comes from; of a copy, its send.
struct PipelineItem {
  Event event{};
  PipelineOperation operation{};
  int receiver = -1;       ///< of a copy, the receiving device
  int group = -1;          ///< of a collective, the same number for all who take part
  bool is_gather = false;  ///< of a collective: it brings parameters, where others take gradients
};

/// What every item, made of the operations `from`, had to wait for, as read_pipeline_timeline describes it. Copies that do not know their
/// micro-batch get their computation's. Edges lead from earlier to later items, so they form no cycle; those that would not are counted in
/// `unmatched`. Requires: items ordered by start. Throws Error: collectives that could make more than 2^24 edges.
[[nodiscard]] std::vector<Edge> pipeline_edges(std::vector<PipelineItem>& items, const PipelineOperations& from, std::int64_t& unmatched);

}  // namespace mptune
