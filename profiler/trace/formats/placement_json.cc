#include "profiler/trace/formats/placement_json.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <istream>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/trace/values/profile_limits.h"

namespace mptune::profiler {
namespace {

using PlacementValue = nlohmann::json;

constexpr int kDeepestPlacement = 8;
constexpr double kMostPlacementDevices = 4096;

class PlacementReader {
 public:
  explicit PlacementReader(TextInput& input) : where_(input.where()), root_(parse(input)) {}

  PlacementGraph read() {
    if (!root_.is_object()) refuse("the JSON is not a placement graph", "");
    const PlacementValue& nodes = list("nodes", kMostProfileLayers);
    for (std::size_t n = 0; n < nodes.size(); ++n) read_node(nodes[n], "/nodes/" + std::to_string(n));
    if (graph_.nodes.empty()) refuse("the graph has no nodes", "/nodes");
    const PlacementValue& edges = list("edges", kMostProfileEdges);
    for (std::size_t e = 0; e < edges.size(); ++e) read_edge(edges[e], "/edges/" + std::to_string(e));
    graph_.devices = static_cast<int>(whole(root_, "maxFPGAs", "", kMostPlacementDevices));
    graph_.hosts = static_cast<int>(whole(root_, "maxCPUs", "", kMostPlacementDevices));
    graph_.memory_bytes = std::llround(number(root_, "maxSizePerFPGA", "", kMostProfileBytes));
    if (graph_.devices + graph_.hosts == 0) refuse("the graph has no device", "/maxFPGAs");
    refuse_cycles();
    return std::move(graph_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& pointer) const {
    throw Error(what, pointer.empty() ? where_ : where_ + ":" + pointer,
                "give a workload of dnn-partitioning: nodes, edges, maxFPGAs, maxCPUs, maxSizePerFPGA");
  }

  PlacementValue parse(TextInput& input) const {
    const auto depth = [&](int level, PlacementValue::parse_event_t, PlacementValue&) {
      if (level > kDeepestPlacement) refuse("nested deeper than 8 levels", "byte " + std::to_string(input.position()));
      return true;
    };
    std::istream stream(&input);
    stream.exceptions(std::ios::badbit);  // rethrows errors of the input
    try {
      return PlacementValue::parse(stream, depth);
    } catch (const PlacementValue::parse_error& fault) {
      refuse("it is not valid JSON", "byte " + std::to_string(fault.byte));
    } catch (const PlacementValue::exception&) {
      refuse("a number is out of range", "byte " + std::to_string(input.position()));
    }
  }

  const PlacementValue& list(const char* name, std::size_t most) const {
    const auto found = root_.find(name);
    const std::string pointer = std::string("/") + name;
    if (found == root_.end() || !found->is_array()) refuse("the JSON is not a placement graph: the list is missing", pointer);
    if (found->size() > most) refuse("the list has more than " + std::to_string(most) + " entries", pointer);
    return *found;
  }

  double number(const PlacementValue& owner, const char* name, const std::string& pointer, double most) const {
    const std::string at = pointer + "/" + name;
    const auto found = owner.find(name);
    if (found == owner.end()) refuse("the value is missing", at);
    if (!found->is_number()) refuse("the value is not a number", at);
    const double value = found->get<double>();
    if (!std::isfinite(value) || value < 0 || value > most) refuse("the value is out of range", at);
    return value;
  }

  double whole(const PlacementValue& owner, const char* name, const std::string& pointer, double most) const {
    const double value = number(owner, name, pointer, most);
    if (value != std::floor(value)) refuse("the value is not a whole number", pointer + "/" + name);
    return value;
  }

  // Accepts 0 and 1 as well as false and true: published files have both.
  bool flag(const PlacementValue& owner, const char* name, const std::string& pointer, bool absent) const {
    const auto found = owner.find(name);
    if (found == owner.end()) return absent;
    return found->is_boolean() ? found->get<bool>() : whole(owner, name, pointer, 1) == 1;
  }

  std::int64_t time_of(const PlacementValue& owner, const char* name, const std::string& pointer) {
    const double milliseconds = number(owner, name, pointer, kMostProfileSeconds * 1e3);
    return std::llround(milliseconds * 1e6);
  }

  void read_node(const PlacementValue& value, const std::string& pointer) {
    if (!value.is_object()) refuse("the node is not an object", pointer);
    PlacementNode node;
    const auto id = static_cast<std::int64_t>(whole(value, "id", pointer, 1e15));
    if (!index_.try_emplace(id, static_cast<int>(graph_.nodes.size())).second) refuse("duplicate node id", pointer + "/id");
    const auto name = value.find("name");
    node.name = name != value.end() && name->is_string() ? name->get<std::string>() : "node" + std::to_string(id);
    node.device_ns = time_of(value, "fpgaLatency", pointer);
    node.host_ns = time_of(value, "cpuLatency", pointer);
    node.bytes = std::llround(number(value, "size", pointer, kMostProfileBytes));
    node.backward = flag(value, "isBackwardNode", pointer, false);
    node.device_can = flag(value, "supportedOnFpga", pointer, true);
    if (value.contains("colorClass")) node.colocated = static_cast<int>(whole(value, "colorClass", pointer, 1e9));
    total_ns_ += node.device_ns + node.host_ns;
    bytes_ += node.bytes;
    if (static_cast<double>(total_ns_) > kMostProfileSeconds * 1e9) refuse("the nodes take more than an hour", pointer);
    if (static_cast<double>(bytes_) > kMostProfileBytes) refuse("the nodes have more than 4 TiB", pointer);
    graph_.nodes.push_back(std::move(node));
  }

  int node_at(const PlacementValue& edge, const char* name, const std::string& pointer) const {
    const auto found = index_.find(static_cast<std::int64_t>(whole(edge, name, pointer, 1e15)));
    if (found == index_.end()) refuse("the edge names an unknown node", pointer + "/" + name);
    return found->second;
  }

  void read_edge(const PlacementValue& value, const std::string& pointer) {
    if (!value.is_object()) refuse("the edge is not an object", pointer);
    const int from = node_at(value, "sourceId", pointer);
    const int to = node_at(value, "destId", pointer);
    const std::int64_t copy_ns = time_of(value, "cost", pointer);
    const auto is_backward = [&](int node) { return graph_.nodes[as_index(node)].backward; };
    if (is_backward(from) && !is_backward(to)) refuse("the edge leads from a backward node to a forward one", pointer);
    const auto [tensor, is_new] = tensors_.try_emplace({from, copy_ns}, graph_.tensors.size());
    if (is_new) graph_.tensors.push_back({from, {}, copy_ns});
    std::vector<int>& consumers = graph_.tensors[tensor->second].consumers;
    if (std::find(consumers.begin(), consumers.end(), to) == consumers.end()) consumers.push_back(to);
    if (is_new) total_ns_ += copy_ns;
    if (static_cast<double>(total_ns_) > kMostProfileSeconds * 1e9) refuse("nodes and copies take more than an hour", pointer);
  }

  // Removes nodes without producers, one after another. If nodes remain, they contain a cycle.
  void refuse_cycles() const {
    std::vector<int> producers(graph_.nodes.size(), 0);
    std::vector<std::vector<int>> consumers(graph_.nodes.size());
    for (const PlacementTensor& tensor : graph_.tensors) {
      for (const int consumer : tensor.consumers) {
        ++producers[as_index(consumer)];
        consumers[as_index(tensor.producer)].push_back(consumer);
      }
    }
    std::vector<std::size_t> ready;
    for (std::size_t n = 0; n < producers.size(); ++n)
      if (producers[n] == 0) ready.push_back(n);
    for (std::size_t i = 0; i < ready.size(); ++i) {
      for (const int consumer : consumers[ready[i]])
        if (--producers[as_index(consumer)] == 0) ready.push_back(as_index(consumer));
    }
    if (ready.size() < graph_.nodes.size()) refuse("the edges form a cycle", "/edges");
  }

  std::string where_;
  PlacementValue root_;
  PlacementGraph graph_;
  std::unordered_map<std::int64_t, int> index_;
  std::map<std::pair<int, std::int64_t>, std::size_t> tensors_;
  std::int64_t total_ns_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace

PlacementGraph read_placement_json(TextInput& input) {
  return PlacementReader(input).read();
}

PlacementGraph read_placement_json(const std::string& path) {
  TextInput input = open_text(path);
  PlacementGraph graph = read_placement_json(input);
  graph.name = std::filesystem::path(path).stem().string();
  return graph;
}

}  // namespace mptune::profiler
