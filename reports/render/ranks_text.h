#pragma once

#include <string>

#include "planner/plan_json.h"
#include "profiler/ranks/merge_ranks.h"
#include "reports/render/style.h"

namespace mptune::reports {

/// Whose recordings a merged trace holds, how their clocks were found, and what has no counterpart.
[[nodiscard]] std::string render_ranks(const profiler::MergedRanks& merged, const TextStyle& style);

/// The same as `ranks` and `missing_ranks` of `json`.
void put_ranks(planner::Json& json, const profiler::MergedRanks& merged);

}  // namespace mptune::reports
