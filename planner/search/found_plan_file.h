#pragma once

#include <functional>
#include <string>

#include "planner/plan/file/plan_file.h"
#include "planner/search/search_result.h"

namespace mptune::planner {

[[nodiscard]] PredictedStep predicted_step(const Prediction& prediction);

/// Words the reason why a plan file lists `other` beside its plan.
using CandidateComparison = std::function<std::string(const Candidate& best, const Candidate& other)>;

/// Returns the plan file of a search: its best plan, and the next ones as alternatives. Requires: a ranked plan.
[[nodiscard]] PlanFile found_plan_file(const SearchResult& result, const Profile& profile, const std::string& created,
                                       const CandidateComparison& compared);

}  // namespace mptune::planner
