#pragma once

#include <string>
#include <vector>

#include "planner/plan/file/plan_json.h"
#include "profiler/trace/analyze/class_sizes.h"

namespace mptune::reports {

/// Returns "costs of larger micro-batches than were measured are extrapolated: cpu/1 from 1, 2 and 4 samples, cpu/2 in channels_last from 1
/// and 2 samples"; "" where none are extrapolated.
[[nodiscard]] std::string extrapolated_text(const std::vector<profiler::ClassSizes>& classes);

/// Returns an object for each class.
[[nodiscard]] planner::Json measured_sizes_json(const std::vector<profiler::ClassSizes>& classes);

}  // namespace mptune::reports
