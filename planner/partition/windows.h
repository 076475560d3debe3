#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "profiler/base/index.h"

namespace mptune::planner {

/// The layer ranges of stages that a search has not excluded.
struct Windows {
  std::vector<std::vector<int>> begins;    ///< [s]: layers at which stage s may begin, ascending; [stages()]: the end of the model
  std::vector<std::vector<int>> furthest;  ///< [s][first]: the largest end of a stage s that begins at `first`
  std::vector<std::vector<int>> nearest;   ///< [s][first]: the smallest end of a stage s that begins at `first`

  [[nodiscard]] int stages() const { return static_cast<int>(furthest.size()); }
  [[nodiscard]] bool allows(int stage, int first, int last) const {
    const auto s = as_index(stage);
    const auto at = as_index(first);
    return last >= nearest[s][at] && last <= furthest[s][at];
  }
  /// Returns the smallest and the largest end of a stage that begins at `first`, at layers where the next stage may begin. Where there is
  /// no end, the smallest is beyond the largest.
  [[nodiscard]] std::pair<int, int> ends(int stage, int first) const {
    const auto s = as_index(stage);
    const auto at = as_index(first);
    if (begins[s + 1].empty()) return {1, 0};
    return {std::max(nearest[s][at], begins[s + 1].front()), std::min(furthest[s][at], begins[s + 1].back())};
  }
  [[nodiscard]] int layers() const { return static_cast<int>(furthest.front().size()) - 1; }
  /// True if some stage may begin nowhere.
  [[nodiscard]] bool empty() const {
    return std::ranges::any_of(begins, [](const std::vector<int>& layers) { return layers.empty(); });
  }
};

}  // namespace mptune::planner
