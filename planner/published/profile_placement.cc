#include "planner/published/profile_placement.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "planner/simulate/operations.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

const ProfileDevice& profiled_device(const CostModel& cost, int device) {
  return cost.profile().devices[as_index(device)];
}

void check_alike(const CostModel& cost, const std::vector<int>& devices) {
  for (const int device : devices) {
    const ProfileDevice& other = profiled_device(cost, device);
    if (other.device_class != profiled_device(cost, devices.front()).device_class)
      throw Error("the largest load is minimised over equal devices only", other.name,
                  "name devices of one kind, or minimise the step time");
  }
}

std::int64_t slowest_copy_ns(const CostModel& cost, const std::vector<int>& devices, std::int64_t bytes) {
  double seconds = 0;
  for (const int source : devices)
    for (const int destination : devices) seconds = std::max(seconds, cost.copy_seconds(source, destination, bytes));
  return to_ns(seconds);
}

void add_layers(const CostModel& cost, int device, int samples, profiler::PlacementGraph& graph) {
  const Profile& profile = cost.profile();
  int together = 0;
  for (int layer = 0; layer < cost.layers(); ++layer) {
    if (cost.may_cut(layer)) together = layer;
    const ProfileLayer& described = profile.layers[as_index(layer)];
    const LayerTimes times = cost.layer(device, layer, samples);
    const double state = (2 + profile.optimizer_state_factor) * static_cast<double>(described.parameters_bytes);
    profiler::PlacementNode node;
    node.name = described.name;
    node.colocated = together;
    node.device_ns = to_ns(times.forward_s);
    node.bytes = std::llround(state) + described.buffers_bytes + cost.memory().saved_activation_bytes(device, layer, layer + 1, samples);
    graph.nodes.push_back(node);
    node.name += " backward";
    node.device_ns = to_ns(times.backward_s);
    node.bytes = 0;
    node.backward = true;
    graph.nodes.push_back(node);
  }
}

}  // namespace

profiler::PlacementGraph placement_graph(const CostModel& cost, const std::vector<int>& devices, int samples, std::int64_t memory_bytes) {
  check_alike(cost, devices);
  cost.require_countable(samples);
  profiler::PlacementGraph graph;
  graph.name = cost.profile().model;
  graph.devices = static_cast<int>(devices.size());
  graph.memory_bytes = memory_bytes;
  add_layers(cost, devices.front(), samples, graph);
  std::map<std::tuple<int, std::int64_t, std::int64_t>, std::vector<int>> outputs;  // edges of one producer and size are one tensor
  for (const LayerEdge& edge : cost.profile().edges) {
    outputs[{edge.from, edge.bytes_per_sample, edge.fixed_bytes}].push_back(2 * edge.to);
    const std::int64_t bytes = edge.bytes_per_sample * samples + edge.fixed_bytes;
    if (edge.needs_gradient) graph.tensors.push_back({2 * edge.to + 1, {2 * edge.from + 1}, slowest_copy_ns(cost, devices, bytes)});
  }
  for (const auto& [output, consumers] : outputs) {
    const auto& [from, bytes_per_sample, fixed_bytes] = output;
    graph.tensors.push_back({2 * from, consumers, slowest_copy_ns(cost, devices, bytes_per_sample * samples + fixed_bytes)});
  }
  return graph;
}

}  // namespace mptune::planner
