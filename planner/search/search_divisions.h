#pragma once

#include <vector>

#include "planner/search/search_result.h"

namespace mptune::planner {

/// Searches every division of the space in each of these variants. Each result holds what was found in one division and variant. All
/// together have the best plan that the limits of the space allow, and the lower bound of each result holds for its plans up to the best
/// step of all. First each division is looked at with a part of the work; then those whose lower bound is below the best step are searched,
/// the best first. Throws Error where no division has a plan that meets all choices, as search_plans() does for the first division.
/// Requires: at least one division and variant; a profile that knows all their devices.
[[nodiscard]] std::vector<SearchResult> search_divisions(const SearchSpace& space, const Profile& profile,
                                                         const std::vector<ExecutionVariant>& variants);

/// Returns the divisions that hold the fastest plans of a result, at most `most`, fastest first.
[[nodiscard]] std::vector<Division> fastest_divisions(const SearchSpace& space, const SearchResult& result, int most);

}  // namespace mptune::planner
