#pragma once

#include <random>
#include <vector>

#include "profiler/model/layers/model.h"

namespace mptune::testing {

/// What a layer of a random graph does. All tensors are (samples, kWidth).
struct GraphLayerShape {
  /// What the layer computes: a sum of products of what it reads, that sum above 0, or that sum without a gradient.
  enum class Makes { sums, masks, constants };

  TensorFlow flow;
  bool declared = true;  ///< Layer::flow says it
  bool trained = true;   ///< has a weight for everything that it reads, and a bias
  Makes makes = Makes::sums;
};

struct GraphShape {
  static constexpr std::int64_t kWidth = 5;
  int inputs = 1;
  std::vector<GraphLayerShape> layers;
};

/// Layers that read nothing, everything or inputs of the model alone among them, tensors that are handed on over any number of layers, that
/// are handed on twice and that nobody reads. The loss reads all that is left. At least 3 layers.
[[nodiscard]] GraphShape random_graph(std::mt19937& random);

/// The same weights for the same shape. Without `declared`, no layer says what it reads.
[[nodiscard]] Model graph_model(const GraphShape& shape, bool declared = true);

}  // namespace mptune::testing
