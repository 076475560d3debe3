#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/nearest_word.h"

namespace mptune::profiler {

/// The optimizers of `--optimizer`, and their names as users type them.
enum class OptimizerKind { sgd, adam, adamw };
inline constexpr std::array kOptimizerNames = {"sgd", "adam", "adamw"};

[[nodiscard]] inline std::string name_of(OptimizerKind kind) {
  return kOptimizerNames[as_index(kind)];
}

[[nodiscard]] inline std::vector<std::string> optimizer_names() {
  return {kOptimizerNames.begin(), kOptimizerNames.end()};
}

/// Throws Error (usage) for another name.
[[nodiscard]] inline OptimizerKind parse_optimizer(const std::string& name) {
  const auto found = std::ranges::find(kOptimizerNames, name);
  if (found == kOptimizerNames.end())
    throw Error("unknown optimizer '" + name + "'", "--optimizer", did_you_mean(name, optimizer_names(), "use sgd, adam or adamw"));
  return static_cast<OptimizerKind>(found - kOptimizerNames.begin());
}

}  // namespace mptune::profiler
