#pragma once

#include <cstdint>
#include <vector>

#include "mptune/profiler/program/exported_program.h"

namespace mptune {

/// True for what takes a model's time: products of matrices, convolutions, attention, recurrent networks, tables that words are looked up
/// in; and of regions with such in them. Requires: `node` is one of `graph`.
[[nodiscard]] bool works_hard(const ProgramGraph& graph, const ProgramNode& node);

/// Estimated multiplications of every node of a graph, at least 1 each, for values of the program's symbols: for a product of matrices or a
/// convolution the elements of its result times what is summed for each, for a region the sum of its nodes, for all others the elements of
/// their result. Sizes that are not known count as 1.
[[nodiscard]] std::vector<double> node_work(const ProgramGraph& graph, const SymbolValues& symbols);

/// A place to cut before node `position`, where `bytes` would cross.
struct PricedCut {
  int position = 0;
  std::int64_t bytes = 0;
  bool operator==(const PricedCut&) const = default;
};

/// Of `cuts` (ascending, between 0 and the number of nodes) those that leave at most `most` pieces. Left out one by one is the cut whose
/// two pieces have the least work together for the bytes that would cross it: small pieces grow, and cuts where little crosses stay.
/// Requires most >= 1.
[[nodiscard]] std::vector<int> coarser_cuts(std::vector<PricedCut> cuts, const std::vector<double>& work, int most);

}  // namespace mptune
