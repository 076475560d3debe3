#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "planner/plan/parallelism.h"
#include "planner/search/search_result.h"
#include "profiler/trace/values/profile.h"
#include "tuner/study/recommend/recommend.h"
#include "tuner/study/store/summary.h"

namespace mptune::tuner {

/// Returns the fastest plan of each kind by the search, or why there is none.
[[nodiscard]] KindFacts kind_facts(const SearchSpace& space, const SearchResult& search, const CostModel& cost);

/// Returns predicted steps for half and twice (at most 8) as many devices like these, by bounded searches. Empty where options restrict the
/// plans. Twice as many devices are left out where the devices are not all alike.
[[nodiscard]] std::vector<OtherDevices> other_devices(const SearchSpace& space, const Profile& profile);

/// Says which kind of parallelism is best here. Each of kParallelisms has a row, from the trials of the final series, else from earlier
/// trials, else with the reason why there is none. The advice that follows has the answer first. The row of the recommended plan's kind has
/// that plan.
[[nodiscard]] KindComparison compare_kinds(const RecommendedPlan& recommended, const std::vector<Trial>& final_series,
                                           const std::vector<Trial>& all, const KindFacts& facts);

}  // namespace mptune::tuner
