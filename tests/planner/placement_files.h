#pragma once

#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "mptune/profiler/trace/placement_graph.h"

namespace mptune::test {

/// A published placement problem (Tarnawski et al. 2020), milliseconds there. All edges of a node cost the same.
inline PlacementGraph published_graph(const std::string& path) {
  const auto file = nlohmann::json::parse(std::ifstream(path));
  const auto ns = [](const nlohmann::json& milliseconds) { return std::llround(milliseconds.get<double>() * 1e6); };
  const auto flag = [](const nlohmann::json& value) { return value.is_boolean() ? value.get<bool>() : value.get<int>() != 0; };
  PlacementGraph graph;
  graph.devices = file.at("maxFPGAs");
  graph.hosts = file.at("maxCPUs");
  graph.memory_bytes = std::llround(file.at("maxSizePerFPGA").get<double>());
  std::map<int, int> index;
  for (const auto& node : file.at("nodes")) {
    index[node.at("id")] = static_cast<int>(graph.nodes.size());
    graph.nodes.push_back({node.at("name"), ns(node.at("fpgaLatency")), ns(node.at("cpuLatency")),
                           std::llround(node.at("size").get<double>()), flag(node.at("isBackwardNode")), flag(node.at("supportedOnFpga")),
                           node.at("colorClass")});
  }
  std::map<int, PlacementTensor> tensors;
  for (const auto& edge : file.at("edges")) {
    PlacementTensor& tensor = tensors[index.at(edge.at("sourceId"))];
    tensor.producer = index.at(edge.at("sourceId"));
    tensor.consumers.push_back(index.at(edge.at("destId")));
    tensor.copy_ns = ns(edge.at("cost"));
  }
  for (const auto& [producer, tensor] : tensors) graph.tensors.push_back(tensor);
  return graph;
}

}  // namespace mptune::test
