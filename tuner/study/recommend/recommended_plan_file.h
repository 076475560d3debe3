#pragma once

#include <functional>
#include <string>
#include <vector>

#include "planner/plan/file/plan_file.h"
#include "tuner/study/recommend/recommend.h"

namespace mptune::tuner {

/// Words how `other` compares with `best`, for the list of alternatives in a plan file.
using RecommendedComparison = std::function<std::string(const RecommendedPlan& best, const RecommendedPlan& other)>;

/// Returns the plan file of a tuning run: the recommended plan as measured and predicted, with the best pipeline and the best plan in half
/// the memory as alternatives, where they differ. `identity` is the study's.
[[nodiscard]] PlanFile recommended_plan_file(const Recommendation& recommendation, const std::vector<ProfileLayer>& layers,
                                             const Fingerprint& fingerprint, const std::string& identity, const std::string& created,
                                             const RecommendedComparison& compared);

}  // namespace mptune::tuner
