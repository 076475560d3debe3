#pragma once

#include <functional>
#include <vector>

#include "planner/advise/fit.h"
#include "planner/search/search_result.h"

namespace mptune::planner {

/// Runs a search with these values in place of what users stated, bounded as quick_search() is. Empty where the values contradict each
/// other.
using SearchWith = std::function<SearchResult(const std::vector<FieldValue>&)>;

/// Returns the fastest plan of the space that options can name, within a fraction of a second; no plan where the space has none.
[[nodiscard]] SearchResult quick_search(SearchSpace space, const Profile& profile);

/// Returns the smallest changes of a search under which a plan fits, where `failed`, its result, has no plan. Each restriction (stages with
/// cuts and replicas, cuts alone, stages per device, micro-batches, schedule, recomputation) is left out by itself, then all of them. Where
/// none is enough, the answer has the largest of the halves of the batch, `raised` caps, and a 1f1b pipeline on more devices (`needed`,
/// where the search finds none). `search_with` has found a plan with the options of each change and with the raised caps. `excess` and
/// `nearest` are what `failed` says.
[[nodiscard]] FitAnswer choices_that_fit(const SearchSpace& space, const SearchResult& failed, const Profile& profile,
                                         const SearchWith& search_with);

}  // namespace mptune::planner
