#pragma once

#include <string>
#include <vector>

#include "planner/plan_json.h"
#include "profiler/ranks/merge_ranks.h"
#include "reports/render/style.h"

namespace mptune::reports {

/// Whose recordings a merged trace holds, how their clocks were found, and what has no counterpart.
[[nodiscard]] std::string render_ranks(const profiler::MergedRanks& merged, const TextStyle& style);

/// "1, 2, 5"; of many the first, and ", ...".
[[nodiscard]] std::string list_of_numbers(const std::vector<int>& numbers);

/// The same as `ranks` and `missing_ranks` of `json`.
void put_ranks(planner::Json& json, const profiler::MergedRanks& merged);

}  // namespace mptune::reports
