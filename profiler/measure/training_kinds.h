#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune::profiler {

/// The optimizers of `--optimizer`, and their names as users type them.
enum class OptimizerKind { sgd, adam, adamw };
inline constexpr std::array kOptimizerNames = {"sgd", "adam", "adamw"};
/// The losses of `--loss` beside the model's own.
enum class LossKind { cross_entropy, mse, mean_square };
inline constexpr std::array kLossNames = {"cross_entropy", "mse", "mean_square"};

[[nodiscard]] inline std::string name_of(OptimizerKind kind) {
  return kOptimizerNames[as_index(kind)];
}
[[nodiscard]] inline std::string name_of(LossKind kind) {
  return kLossNames[as_index(kind)];
}

/// Throw Error (usage) for another name.
[[nodiscard]] inline OptimizerKind parse_optimizer(const std::string& name) {
  const auto found = std::ranges::find(kOptimizerNames, name);
  if (found == kOptimizerNames.end()) throw Error("unknown optimizer '" + name + "'", "--optimizer", "use sgd, adam or adamw");
  return static_cast<OptimizerKind>(found - kOptimizerNames.begin());
}
[[nodiscard]] inline LossKind parse_loss(const std::string& name) {
  const auto found = std::ranges::find(kLossNames, name);
  if (found == kLossNames.end()) throw Error("unknown loss '" + name + "'", "--loss", "use cross_entropy, mse, mean_square or model");
  return static_cast<LossKind>(found - kLossNames.begin());
}

}  // namespace mptune::profiler
