#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/trace/formats/text_lines.h"

namespace mptune::profiler {

/// A node of the file, in seconds and bytes.
struct GraphNode {
  std::string name;
  std::string description;
  double forward_s = 0;
  double backward_s = 0;
  std::int64_t activation_bytes = 0;
  std::int64_t parameters_bytes = 0;
  std::vector<int> from;  ///< producers: indices of nodes, ascending, without duplicates
};

/// Returns the nodes of a graph.txt in topological order, ties by the numbers in their names. Throws Error like read_layer_graph.
[[nodiscard]] std::vector<GraphNode> read_graph_nodes(TextInput& input);

}  // namespace mptune::profiler
