#pragma once

#include <functional>
#include <string>
#include <vector>

#include "profiler/model/layers/model.h"

namespace mptune::testing {

/// Layers of one kind or of one trap each, in chains of at least four that can be cut anywhere. The loss is Loss::mean_square.
struct SmallModel {
  std::string name;
  std::function<Model()> make;
};
[[nodiscard]] const std::vector<SmallModel>& small_models();

/// Convolutions of all kinds with norms: torch::nn.
[[nodiscard]] Model convolutions();
/// The like, loaded from a TorchScript file.
[[nodiscard]] Model scripted_model();

/// An independent copy with another loss.
[[nodiscard]] Model copy_of(const Model& model, const Loss& loss);
[[nodiscard]] Model copy_of(const Model& model);

}  // namespace mptune::testing
