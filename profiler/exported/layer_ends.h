#pragma once

#include <vector>

#include "profiler/exported/layer.h"

namespace mptune::profiler {

/// Most layers of an exported program. Finer cuts gain the less the more there are per stage, and a search takes the longer.
inline constexpr int kMostExportedLayers = 400;

/// Ends of a program's layers: 0, the cuts between them, the number of nodes.
/// Between two products (works_hard) a layer ends at the cheapest allowed cut (ProgramCuts::useful), unless a buffer that the program
/// writes to is used on both sides. A program with cuts for more than kMostExportedLayers layers loses those with the least work beside
/// them per byte sent (coarser_cuts). Up to that many layers none is too small: what a boundary adds to its time is microseconds.
[[nodiscard]] std::vector<int> exported_layer_ends(const BoundProgram& bound);

}  // namespace mptune::profiler
