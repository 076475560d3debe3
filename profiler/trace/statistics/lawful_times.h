#pragma once

#include <vector>

namespace mptune::profiler {

/// Corrects `times` of one operation, one per size, to the largest values that obey two laws:
///
///     1. a smaller size takes no longer than a larger one,
///     2. a size takes no longer than several operations of a smaller size that together cover it.
///
/// Disturbances only add time, so the longer of two times that contradict each other is lowered. Returns one time per size. Requires: sizes
/// are positive and strictly ascending; there is one time per size, none negative.
[[nodiscard]] std::vector<double> lawful_times(const std::vector<int>& sizes, std::vector<double> times);

}  // namespace mptune::profiler
