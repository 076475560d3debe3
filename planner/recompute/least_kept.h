#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/recompute/least_set.h"

namespace mptune::planner {

/// The bytes of a micro-batch that a layer takes in the whole backward of its stage.
struct LayerNeed {
  std::int64_t saved_bytes = 0;
  std::int64_t running_bytes = 0;  ///< needed while its own backward runs, beside what it and the layers before it save
  std::int64_t input_bytes = 0;    ///< saved in addition if the layer is saved after one that is computed again
  bool first = false;              ///< first layer of its stage
};

/// Returns the most bytes of a micro-batch while the backward of a stage runs whose layers are computed again piece by piece, the last
/// piece first. At a layer the backward needs what the saved layers before its piece save, what its piece has saved up to it, and what the
/// layer takes itself:
///
///     layers       0  1  2  3  4      1, 3 and 4 are computed again
///     at layer 3   0     2  3         and its running_bytes
[[nodiscard]] std::int64_t backward_bytes(const std::vector<LayerNeed>& layers, const LayerSet& set);

/// Returns the set of layers that saves fewest bytes from forward to backward, among those whose backward_bytes() are at most `most_bytes`;
/// none if there is no such set. The result is exact, by dynamic programming over the ends of pieces.
[[nodiscard]] std::optional<LayerSet> least_kept(const std::vector<LayerNeed>& layers, std::int64_t most_bytes);

}  // namespace mptune::planner
