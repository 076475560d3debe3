#pragma once

#include <vector>

#include "profiler/model/exported/layer.h"

namespace mptune::profiler {

/// Most layers of an exported program. The more layers a stage has, the less finer cuts gain, and the longer a search takes.
inline constexpr int kMostExportedLayers = 400;

/// Returns the ends of a program's layers: 0, the cuts between them, the number of nodes.
/// Between two products (works_hard) a layer ends at the cheapest allowed cut (ProgramCuts::useful), unless a buffer that the program
/// writes to is used on both sides. A program with cuts for more than kMostExportedLayers layers loses the cuts with the least work beside
/// them per byte sent (coarser_cuts). Up to that number, no layer is too small: a boundary adds only microseconds to its time.
[[nodiscard]] std::vector<int> exported_layer_ends(const BoundProgram& bound);

}  // namespace mptune::profiler
