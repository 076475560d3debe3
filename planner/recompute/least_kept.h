#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/recompute/least_set.h"

namespace mptune::planner {

/// What a layer takes of a micro-batch in the whole backward of its stage.
struct LayerNeed {
  std::int64_t saved_bytes = 0;
  std::int64_t running_bytes = 0;  ///< beside what it and the layers before it save, while its own backward runs
  std::int64_t input_bytes = 0;    ///< saved besides if the layer is saved behind one that is computed again
  bool first = false;              ///< of its stage
};

/// Most bytes of a micro-batch while the backward of a stage runs, whose layers are computed again piece by piece, the last piece first. At
/// a layer it needs what the saved layers before its piece save, what its piece has saved up to it, and what it takes itself:
///
///     layers       0  1  2  3  4      1, 3 and 4 are computed again
///     at layer 3   0     2  3         and its running_bytes
[[nodiscard]] std::int64_t backward_bytes(const std::vector<LayerNeed>& layers, const LayerSet& set);

/// Of the sets of layers whose backward_bytes() are at most `most_bytes`, the one that saves fewest bytes from forward to backward; none if
/// there is no such set. Exact, by dynamic programming over the ends of pieces.
[[nodiscard]] std::optional<LayerSet> least_kept(const std::vector<LayerNeed>& layers, std::int64_t most_bytes);

}  // namespace mptune::planner
