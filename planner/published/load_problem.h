#pragma once

#include <cstdint>
#include <vector>

#include "profiler/trace/formats/placement_graph.h"

namespace mptune::planner {

/// Nodes of a graph that share a device in every split, or in some best split.
struct LoadGroup {
  std::vector<int> nodes;  ///< ascending
  std::int64_t device_ns = 0;
  std::int64_t host_ns = 0;
  std::int64_t bytes = 0;
  bool device_can = true;
};

/// Groups that exchange a tensor. A device with some of these groups, but not all, pays for one copy.
struct LoadNet {
  std::vector<int> groups;  ///< ascending, at least two
  std::int64_t copy_ns = 0;
};

/// A PlacementGraph whose colocated nodes, and nodes on a cycle of groups, are merged. As forward and backward of a layer are one group, a
/// split consists of consecutive sets of groups, and its copies are the nets that these cut.
struct LoadProblem {
  std::vector<LoadGroup> groups;          ///< in a topological order
  std::vector<std::vector<int>> before;   ///< per group: groups that are on the same or an earlier part
  std::vector<std::vector<int>> after;    ///< per group: groups that are on the same or a later part
  std::vector<LoadNet> nets;              ///< nets of different groups each, none free
  std::vector<std::vector<int>> nets_of;  ///< per group: indices of its nets
  int devices = 1;
  int hosts = 0;
  std::int64_t memory_bytes = 0;  ///< per device; 0: no cap

  [[nodiscard]] int size() const { return static_cast<int>(groups.size()); }
  [[nodiscard]] std::int64_t device_ns() const;  ///< time of all groups on one device
};

/// Throws Error for an invalid graph: an index out of range, a negative cost or count, a cycle, a tensor from backward to forward.
[[nodiscard]] LoadProblem load_problem(const profiler::PlacementGraph& graph);

}  // namespace mptune::planner
