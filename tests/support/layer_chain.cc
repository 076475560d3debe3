#include "tests/support/layer_chain.h"

#include <algorithm>
#include <stdexcept>

#include "profiler/base/index.h"

namespace mptune::testing {
namespace {

// First layers of the chain's layers, ascending, and at the end the number of layers.
std::vector<std::size_t> chain_starts(const Profile& graph) {
  const std::size_t layers = graph.layers.size();
  std::vector<std::size_t> needed_until(layers, 0);
  for (const LayerEdge& edge : graph.edges) {
    std::size_t& until = needed_until[as_index(edge.from)];
    until = std::max(until, as_index(edge.to));
  }
  std::vector<int> live(layers + 1, 0);  // number of live tensors, as differences
  for (std::size_t layer = 0; layer < layers; ++layer) {
    if (needed_until[layer] <= layer) continue;
    ++live[layer + 1];
    --live[needed_until[layer] + 1];
  }
  std::vector<std::size_t> starts;
  int now = 0;
  for (std::size_t cut = 0; cut < layers; ++cut) {
    now += live[cut];
    if (cut == 0 || now <= 1) starts.push_back(cut);
  }
  starts.push_back(layers);
  return starts;
}

ProfileLayer merged_layer(const Profile& graph, std::size_t first, std::size_t last) {
  ProfileLayer merged = graph.layers[first];
  for (std::size_t l = first + 1; l < last; ++l) {
    const ProfileLayer& layer = graph.layers[l];
    merged.modules.insert(merged.modules.end(), layer.modules.begin(), layer.modules.end());
    merged.parameters += layer.parameters;
    merged.parameters_bytes += layer.parameters_bytes;
    merged.buffers_bytes += layer.buffers_bytes;
    merged.batch_statistics = merged.batch_statistics || layer.batch_statistics;
    merged.kind = std::to_string(last - first) + " layers";
    merged.name = graph.layers[first].name + "-" + layer.name;
  }
  return merged;
}

// Adds samples if both were measured; otherwise the sum is unknown.
void add_times(Samples& sum, const Samples& other) {
  sum = sum.empty() || other.empty() ? Samples{} : exactly(median(sum) + median(other));
}

LayerCosts merged_costs(const DeviceClass& device_class, std::size_t first, std::size_t last) {
  LayerCosts merged = device_class.layers[first];
  for (std::size_t l = first + 1; l < last; ++l) {
    const std::vector<LayerCost>& costs = device_class.layers[l].by_samples;
    if (costs.size() != merged.by_samples.size()) throw std::invalid_argument("layers measured at different micro-batch sizes");
    for (std::size_t i = 0; i < costs.size(); ++i) {
      LayerCost& sum = merged.by_samples[i];
      if (costs[i].samples != sum.samples) throw std::invalid_argument("layers measured at different micro-batch sizes");
      for (Samples LayerCost::*part : {&LayerCost::forward, &LayerCost::backward, &LayerCost::forward_busy, &LayerCost::backward_busy,
                                       &LayerCost::backward_input, &LayerCost::backward_weight})
        add_times(sum.*part, costs[i].*part);
      sum.output_bytes = costs[i].output_bytes;
      sum.saved_activation_bytes += costs[i].saved_activation_bytes;
      sum.keeps_output = costs[i].keeps_output;
      sum.workspace_bytes = std::max(sum.workspace_bytes, costs[i].workspace_bytes);
    }
  }
  return merged;
}

// The tensor that crosses the cut before `layer`, as an edge of the chain.
LayerEdge crossing(const Profile& graph, std::size_t layer, int to) {
  LayerEdge edge{to - 1, to, 0, 0, false};
  for (const LayerEdge& other : graph.edges) {
    if (as_index(other.from) >= layer || as_index(other.to) < layer) continue;
    edge.bytes_per_sample = std::max(edge.bytes_per_sample, other.bytes_per_sample);
    edge.fixed_bytes = std::max(edge.fixed_bytes, other.fixed_bytes);
    edge.needs_gradient = edge.needs_gradient || other.needs_gradient;
  }
  return edge;
}

}  // namespace

Profile layer_chain(const Profile& graph) {
  const std::vector<std::size_t> starts = chain_starts(graph);
  Profile chain = graph;
  chain.layers.clear();
  chain.edges.clear();
  chain.forbidden_cuts.clear();
  for (DeviceClass& device_class : chain.classes) device_class.layers.clear();
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    const int at = static_cast<int>(i);
    chain.layers.push_back(merged_layer(graph, starts[i], starts[i + 1]));
    for (std::size_t c = 0; c < graph.classes.size(); ++c)
      chain.classes[c].layers.push_back(merged_costs(graph.classes[c], starts[i], starts[i + 1]));
    if (i > 0) chain.edges.push_back(crossing(graph, starts[i], at));
    for (const ForbiddenCut& cut : graph.forbidden_cuts)
      if (as_index(cut.layer) == starts[i]) chain.forbidden_cuts.push_back({at, cut.reason});
  }
  return chain;
}

}  // namespace mptune::testing
