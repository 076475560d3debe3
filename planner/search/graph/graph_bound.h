#pragma once

#include <cstdint>

#include "planner/cost/cost_model.h"
#include "planner/search/space/search_space.h"

namespace mptune::planner {

/// Returns the nanoseconds that every step of the space takes at least, for a model whose layers are a graph: the largest of
///
/// - all work over all devices,
/// - what one micro-batch alone takes along the longest path of layers,
/// - where the space limits the number of stages: the least, over all ways to cut the layers into at most this many stages, of the most
///   that any stage takes. A stage begins when what it reads can be there and works off all micro-batches; then the gradients of the last
///   one go back along the longest path. Its first backward waits for the longest path to the loss and back, which it can fill with
///   forwards only:
///
///       path to it | F0 F1 F2 ..    wait    B0 .. B(m-1) | path back from it
///
/// Each layer counts its least time over the devices. Copies between devices count where each stage has a device of its own; plans whose
/// stages share one are then bounded by all work over the other devices. Fused weight gradients are not covered.
[[nodiscard]] std::int64_t graph_bound_ns(const SearchSpace& space, const CostModel& cost);

}  // namespace mptune::planner
