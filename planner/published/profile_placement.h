#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/cost_model.h"
#include "profiler/trace/formats/placement_graph.h"

namespace mptune::planner {

/// Returns one micro-batch of a profiled model as a graph to be placed. Each layer has its forward (node 2 l) and its backward (2 l + 1),
/// colocated; outputs go forward, once per receiving device, and gradients come back from every layer that took an output.
///
/// Times are those measured alone; copies go over the slowest link between any two of `devices`. Bytes are parameters, gradients, optimizer
/// state and buffers, and what one micro-batch keeps; how many are in flight depends on the schedule, which this model does not know.
/// Where a stage may not begin at a layer, it shares a device with the layer before it.
/// `devices` are indices into the profile's; `memory_bytes` is the cap of each, 0: none. Throws Error where they are of different classes,
/// or where a link between them is not known.
[[nodiscard]] profiler::PlacementGraph placement_graph(const CostModel& cost, const std::vector<int>& devices, int samples,
                                                       std::int64_t memory_bytes);

}  // namespace mptune::planner
