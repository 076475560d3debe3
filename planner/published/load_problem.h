#pragma once

#include <cstdint>
#include <vector>

#include "profiler/formats/placement_graph.h"

namespace mptune::planner {

/// Nodes of a graph that share a device in every split, or in some best one.
struct LoadGroup {
  std::vector<int> nodes;  ///< ascending
  std::int64_t device_ns = 0;
  std::int64_t host_ns = 0;
  std::int64_t bytes = 0;
  bool device_can = true;
};

/// Groups that exchange a tensor. A device with some of them, but not all, pays for one copy.
struct LoadNet {
  std::vector<int> groups;  ///< ascending, two at least
  std::int64_t copy_ns = 0;
};

/// A PlacementGraph whose colocated nodes, and those on a cycle of groups, are merged. As forward and backward of a layer are one group, a
/// split is consecutive sets of groups, and its copies are the nets that these cut.
struct LoadProblem {
  std::vector<LoadGroup> groups;          ///< in a topological order
  std::vector<std::vector<int>> before;   ///< per group: groups that sit on the same or an earlier part
  std::vector<std::vector<int>> after;    ///< the reverse
  std::vector<LoadNet> nets;              ///< of different groups each, none free
  std::vector<std::vector<int>> nets_of;  ///< per group
  int devices = 1;
  int hosts = 0;
  std::int64_t memory_bytes = 0;  ///< per device; 0: no cap

  [[nodiscard]] int size() const { return static_cast<int>(groups.size()); }
  [[nodiscard]] std::int64_t device_ns() const;  ///< all groups on one device
};

/// Throws Error for an invalid graph: an index out of range, a negative cost or count, a cycle, a tensor from backward to forward.
[[nodiscard]] LoadProblem load_problem(const profiler::PlacementGraph& graph);

}  // namespace mptune::planner
