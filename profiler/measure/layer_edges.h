#pragma once

#include <vector>

#include "profiler/measure/layer_timing.h"
#include "profiler/model/model.h"
#include "profiler/trace/profile.h"

namespace mptune::profiler {

/// Which layers read what others compute, with its size: from Layer::flow and what each layer returned. Inputs of the model are no edges.
/// What the loss reads, the last layer does. Of a layer that does not say what it computes there are up to two edges: what has a gradient,
/// and what has none. By ascending reader, then maker.
[[nodiscard]] std::vector<LayerEdge> layer_edges(const Model& model, const std::vector<std::vector<ReturnedTensor>>& returned);

}  // namespace mptune::profiler
