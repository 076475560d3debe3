#pragma once

#include <vector>

#include "profiler/trace/values/profile.h"

namespace mptune::planner {

/// How devices of a profile count as busy ones. Each counts once, unless some share cores or a GPU. Those belong to different divisions of
/// a pool, and then devices count by their size.
struct Neighbours {
  std::vector<int> weights;  ///< per device: 1, or its cores, or its share of a GPU in twelfths
  std::vector<int> others;   ///< per device: weight of all others that were busy while it was measured; 0: it was not measured busy
};

/// Returns how the devices count. `busy_classes` says for each class of the profile whether it has busy times.
[[nodiscard]] Neighbours neighbours_of(const Profile& profile, const std::vector<bool>& busy_classes);

}  // namespace mptune::planner
