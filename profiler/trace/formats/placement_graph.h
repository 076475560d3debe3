#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mptune::profiler {

/// One operation of a training step: a layer's forward or its backward.
struct PlacementNode {
  std::string name;
  std::int64_t device_ns = 0;  ///< on a device
  std::int64_t host_ns = 0;    ///< on a host processor
  std::int64_t bytes = 0;      ///< device memory, held for the whole step
  bool backward = false;
  bool device_can = true;  ///< false: runs on a host processor only
  int colocated = -1;      ///< nodes with the same number share a device; -1: any device
  bool operator==(const PlacementNode&) const = default;
};

/// The output of a node and its consumers. A device with several consumers receives one copy.
struct PlacementTensor {
  int producer = 0;            ///< index into PlacementGraph::nodes
  std::vector<int> consumers;  ///< indices into PlacementGraph::nodes
  std::int64_t copy_ns = 0;    ///< time of a copy to another device or the host: once for the sender, once for every receiving device
  bool operator==(const PlacementTensor&) const = default;
};

/// A step as a graph of operations to be placed on equal devices, in the model of Tarnawski et al., "Efficient algorithms for device
/// placement of DNN graph operators", NeurIPS 2020.
/// Requires: tensors make no cycle, and nothing flows from a backward node to one that is not.
struct PlacementGraph {
  std::string name;
  std::vector<PlacementNode> nodes;
  std::vector<PlacementTensor> tensors;
  int devices = 1;
  int hosts = 0;                  ///< host processors: copies cost them no time and their memory is unlimited
  std::int64_t memory_bytes = 0;  ///< cap of each device; 0: none
  bool operator==(const PlacementGraph&) const = default;
};

}  // namespace mptune::profiler
