#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace mptune::planner {

/// A layer of a device that may be computed again. Layers of one stage follow each other in order.
struct LayerChoice {
  int stage = 0;
  int layer = 0;
  std::int64_t forward_ns = 0;   ///< at least 0
  std::int64_t freed_bytes = 0;  ///< bytes that need not be saved if the layer is computed again
  std::int64_t input_bytes = 0;  ///< saved in addition if the layer is saved after one that is computed again
  bool first = false;            ///< first layer of its stage: its input is saved anyway
};

/// Says for each layer whether it is computed again.
using LayerSet = std::vector<bool>;

struct LeastSet {
  std::optional<LayerSet> layers;  ///< none: not even the set that frees most bytes fits
  std::int64_t tried = 0;          ///< calls of `fits`
  std::int64_t stored = 0;         ///< sets of layers that were made
};

/// Returns the set of layers whose forwards take least, among all sets that fit. It asks `fits` some 10 times, and takes for granted that a
/// set fits if one that frees no more bytes does, and that the empty set does not fit. First it finds two neighbours among the sets on the
/// convex hull of time and bytes freed, of which one does not fit and the other does. A set that takes less than the one that fits, and
/// that may fit, lies between them, near the hull. These sets are listed front by front, layer by layer. Where more than some hundreds are
/// left, every second one is dropped; then the result takes more than the least by at most the difference of the two neighbours, as a rule
/// less than one layer's forward.
[[nodiscard]] LeastSet least_set(const std::vector<LayerChoice>& layers, const std::function<bool(const LayerSet&)>& fits);

}  // namespace mptune::planner
