#pragma once

#include <cstdint>
#include <vector>

#include "profiler/model/program/exported_program.h"

namespace mptune::profiler {

/// True for nodes that dominate a model's time: matrix products, convolutions, attention, recurrent networks, embeddings, and regions that
/// contain one of them. Requires: `node` is one of `graph`.
[[nodiscard]] bool works_hard(const ProgramGraph& graph, const ProgramNode& node);

/// Returns the estimated multiplications of every node of a graph, at least 1 each, for the given values of the program's symbols. Matrix
/// products and convolutions count elements of the result times products summed per element. Regions count the sum of their nodes. All
/// other nodes count elements of the result. Unknown sizes count as 1.
[[nodiscard]] std::vector<double> node_work(const ProgramGraph& graph, const SymbolValues& symbols);

/// A cut before node `position`, which would send `bytes`.
struct PricedCut {
  int position = 0;
  std::int64_t bytes = 0;
  bool operator==(const PricedCut&) const = default;
};

/// Removes cuts until at most `most` pieces remain. Each time it removes the cut with the least (work of its two pieces) / bytes, so small
/// pieces merge and cheap cuts stay.
/// Requires: cuts ascending, between 0 and the number of nodes; most >= 1.
[[nodiscard]] std::vector<int> coarser_cuts(std::vector<PricedCut> cuts, const std::vector<double>& work, int most);

}  // namespace mptune::profiler
