#pragma once

#include <vector>

#include "profiler/measure/layer_timing.h"
#include "profiler/model/layers/model.h"
#include "profiler/trace/values/profile.h"

namespace mptune::profiler {

/// Returns which layers read what others compute, with its size, from Layer::flow and what each layer returned. Inputs of the model are no
/// edges. What the loss reads counts as read by the last layer. A layer that does not describe its flow has up to two edges to the next:
/// one for what has a gradient, one for what has none. Ordered by ascending reader, then maker.
[[nodiscard]] std::vector<LayerEdge> layer_edges(const Model& model, const std::vector<std::vector<ReturnedTensor>>& returned);

}  // namespace mptune::profiler
