#pragma once

#include <string>
#include <vector>

#include "planner/plan/file/plan_json.h"
#include "profiler/trace/ranks/merge_ranks.h"
#include "reports/render/style.h"

namespace mptune::reports {

/// Says whose recordings a merged trace holds, how their clocks were found, and what has no counterpart.
[[nodiscard]] std::string render_ranks(const profiler::MergedRanks& merged, const TextStyle& style);

/// Returns "1, 2, 5"; for many numbers the first ones and ", ...".
[[nodiscard]] std::string list_of_numbers(const std::vector<int>& numbers);

/// Adds the same as `ranks` and `missing_ranks` of `json`.
void put_ranks(planner::Json& json, const profiler::MergedRanks& merged);

}  // namespace mptune::reports
