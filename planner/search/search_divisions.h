#pragma once

#include <vector>

#include "planner/search/search.h"

namespace mptune::planner {

/// Searches every division of the space in each of these variants. Results hold what was found in one of them each; all together have the
/// best plan that the limits of the space allow, and the lower bound of each holds for its plans up to the best step of all.
/// First looks at each division with a part of the work; then searches those whose lower bound is below the best step, the best first.
/// Throws Error where no division has a plan that meets all choices, as search_plans() does for the first of them.
/// Requires: at least one division and variant; a profile that knows all their devices.
[[nodiscard]] std::vector<SearchResult> search_divisions(const SearchSpace& space, const Profile& profile,
                                                         const std::vector<ExecutionVariant>& variants);

/// The divisions that hold the fastest plans of a result, at most `most`, fastest first.
[[nodiscard]] std::vector<Division> fastest_divisions(const SearchSpace& space, const SearchResult& result, int most);

}  // namespace mptune::planner
