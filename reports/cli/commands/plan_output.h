#pragma once

#include <string>
#include <vector>

#include "planner/plan/file/plan_file.h"
#include "planner/search/search_result.h"
#include "planner/simulate/simulate.h"
#include "reports/render/json.h"

namespace mptune::reports {

/// Does what check_output() does, and also refuses JSON that is no plan file, unless `force`. Called before a search, so that saving can't
/// fail for it later.
void check_plan_output(const std::string& path, bool force, const std::vector<std::string>& inputs);

/// Returns the gap; null where it is infinite, as nothing is proved.
[[nodiscard]] planner::Json gap_json(double gap);

/// Returns the JSON of `plan`: the keys of a plan file and those of a search, so that a reader of plan files reads this object, too.
/// `front`: as memory_front() made it. Requires: a ranked plan.
[[nodiscard]] planner::Json searched_plan_json(const SearchResult& result, const std::vector<Candidate>& front, const Profile& profile,
                                               double search_s, const std::string& file);

}  // namespace mptune::reports
