#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "profiler/trace/formats/placement_graph.h"

namespace mptune::planner {

/// What one device or host processor runs.
struct LoadPart {
  std::vector<int> nodes;  ///< nodes of the graph: forward ones in an order that their tensors allow, then the others
  bool on_host = false;
  std::int64_t compute_ns = 0;
  std::int64_t copy_ns = 0;  ///< tensors that cross its edge, each once, to either side; 0 on a host
  std::int64_t bytes = 0;
  [[nodiscard]] std::int64_t load_ns() const { return compute_ns + copy_ns; }
  bool operator==(const LoadPart&) const = default;
};

/// A split of a graph, and how far from the best it may be.
struct LoadPartition {
  std::vector<LoadPart> parts;      ///< in pipeline order, none empty: every tensor between forward nodes goes to the same or a later part
  std::int64_t load_ns = 0;         ///< the largest load of the parts
  std::int64_t lower_bound_ns = 0;  ///< no split of this kind has a smaller load
  std::int64_t ideals = 0;          ///< sets of nodes closed under predecessors that were looked at
  std::int64_t pairs = 0;           ///< parts that were priced
  [[nodiscard]] bool exact() const { return load_ns == lower_bound_ns; }
  /// load / lower bound - 1 (gap.h): 0 where the load is proved least, infinite where nothing is proved.
  [[nodiscard]] double gap() const;
  bool operator==(const LoadPartition&) const = default;
};

/// How long to look for the best split.
struct LoadLimits {
  std::int64_t ideals = 1'000'000;   ///< beyond this number the best split is not proved, but splits near the best found ones are looked at
  std::int64_t pairs = 500'000'000;  ///< parts that may be looked at: seconds
  std::function<bool()> stop;        ///< asked now and then; true ends the search with what it has. Empty: never
};

/// Returns the split into parts with consecutive forward nodes, at most one part per device or host, whose largest load is least.
///
/// A device's load is the time of its nodes and of every tensor of which it has some nodes (producer or consumers), but not all. Parts are
/// consecutive where no forward tensor goes to an earlier part; other nodes sit with the forward node they are colocated with. Backward
/// nodes without a colocated forward node keep the mirrored order.
/// The split is exact by dynamic programming over sets closed under predecessors (ideals) whose work fits into the window that an upper
/// bound leaves. Where there are too many of these sets, it searches those of good orders and their neighbours, with the gap to a proven
/// bound.
/// Throws Error(infeasible) where nothing fits under the cap, Error for an invalid graph (cycle, index, negative cost), and where the
/// values of a search (nodes x devices x hosts) would take more than 512 MiB.
[[nodiscard]] LoadPartition least_max_load(const profiler::PlacementGraph& graph, const LoadLimits& limits = {});

}  // namespace mptune::planner
