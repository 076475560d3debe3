#pragma once

#include "planner/advise/fit.h"
#include "planner/search/search.h"

namespace mptune::planner {

/// The smallest change of a search's restrictions under which a plan fits, where `failed`, its result, has none: each restriction (stages
/// with cuts and replicas, cuts alone, stages per device, micro-batches, schedule, recomputation) left out by itself, then all of them. A
/// change is the fastest plan found then, with the options that name what the restriction would have to be. `excess` and `nearest` are what
/// `failed` says. Searches are bounded to a fraction of a second each.
[[nodiscard]] FitAnswer choices_that_fit(const SearchSpace& space, const SearchResult& failed, const CostModel& cost);

}  // namespace mptune::planner
