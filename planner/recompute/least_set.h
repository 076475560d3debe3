#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace mptune::planner {

/// A layer of a device, which may be computed again. Layers of one stage follow each other in order.
struct LayerChoice {
  int stage = 0;
  int layer = 0;
  std::int64_t forward_ns = 0;   ///< at least 0
  std::int64_t freed_bytes = 0;  ///< that need not be saved
  std::int64_t input_bytes = 0;  ///< saved besides if the layer is saved behind one that is computed again
  bool first = false;            ///< of its stage: its input is saved anyway
};

/// For each layer, whether it is computed again.
using LayerSet = std::vector<bool>;

struct LeastSet {
  std::optional<LayerSet> layers;  ///< none: not even the set that frees most fits
  std::int64_t tried = 0;          ///< calls of `fits`
  std::int64_t stored = 0;         ///< sets of layers that were made
};

/// The set of layers whose forwards take least of all that fit. Asks `fits` some 10 times, and takes for granted that a set fits if one
/// that frees no more bytes does, and that the empty set does not. Of all sets that are on the convex hull by time and bytes freed, two
/// neighbours are found first: the one does not fit, the other one does. A set that takes less than the latter and may fit lies between
/// them, near the hull. Those are listed, front by front, layer by layer. Where more than some hundreds are left, every second one is
/// dropped; then the result takes at most as much more than the least as the two neighbours differ in, as a rule less than one layer's
/// forward.
[[nodiscard]] LeastSet least_set(const std::vector<LayerChoice>& layers, const std::function<bool(const LayerSet&)>& fits);

}  // namespace mptune::planner
