#include "profiler/measure/layer_edges.h"

#include <algorithm>

#include "profiler/base/index.h"
#include "profiler/model/layers/model_flow.h"

namespace mptune::profiler {
namespace {

// Returns the sum of the tensors with gradient and the sum of those without.
std::vector<ReturnedTensor> added_up(const std::vector<ReturnedTensor>& all) {
  ReturnedTensor sums[2] = {{0, true}, {0, false}};
  bool any[2] = {false, false};
  for (const ReturnedTensor& tensor : all) {
    const int kind = tensor.needs_gradient ? 0 : 1;
    sums[kind].bytes += tensor.bytes;
    any[kind] = true;
  }
  std::vector<ReturnedTensor> kinds;
  for (const int kind : {0, 1})
    if (any[kind]) kinds.push_back(sums[kind]);
  return kinds;
}

}  // namespace

std::vector<LayerEdge> layer_edges(const Model& model, const std::vector<std::vector<ReturnedTensor>>& returned) {
  std::vector<LayerEdge> edges;
  const ModelFlow flow(model.layers());
  for (const ModelTensor& tensor : flow.tensors()) {
    if (tensor.maker < 0 || tensor.maker + 1 == model.size()) continue;
    const std::vector<ReturnedTensor>& all = returned[as_index(tensor.maker)];
    const std::vector<ReturnedTensor> sizes =
        tensor.output == ModelTensor::kAll ? added_up(all) : std::vector<ReturnedTensor>{all.at(as_index(tensor.output))};
    int before = tensor.maker;
    for (const int layer : tensor.readers) {
      const int reader = std::min(layer, model.size() - 1);
      if (reader == before) continue;
      before = reader;
      const bool several = reader != layer || std::ranges::count(tensor.several, layer) > 0;
      for (const auto& [bytes, needs_gradient] : sizes) edges.push_back({tensor.maker, reader, bytes, 0, needs_gradient, several});
    }
  }
  std::ranges::stable_sort(edges, {}, [](const LayerEdge& edge) { return std::pair(edge.to, edge.from); });
  return edges;
}

}  // namespace mptune::profiler
