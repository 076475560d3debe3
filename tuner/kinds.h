#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "planner/parallelism.h"
#include "planner/search/search.h"
#include "profiler/trace/profile.h"
#include "tuner/recommend.h"
#include "tuner/study/summary.h"

namespace mptune::tuner {

/// The fastest plan of each kind by the search, or why there is none.
[[nodiscard]] KindFacts kind_facts(const SearchSpace& space, const SearchResult& search, const CostModel& cost);

/// Predicted steps for half and twice (at most 8) as many devices like these, by bounded searches. Empty where options restrict the plans.
/// More devices are left out where these are not all alike.
[[nodiscard]] std::vector<OtherDevices> other_devices(const SearchSpace& space, const Profile& profile);

/// Which kind of parallelism is best here: a row for each of kParallelisms out of the trials of the final series, else of those before it,
/// else why there is none; and what follows, a sentence each, the answer first. The row of the recommended plan's kind is that plan.
[[nodiscard]] KindComparison compare_kinds(const RecommendedPlan& recommended, const std::vector<Trial>& final_series,
                                           const std::vector<Trial>& all, const KindFacts& facts);

}  // namespace mptune::tuner
