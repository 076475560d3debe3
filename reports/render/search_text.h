#pragma once

#include <string>

#include "planner/search/search.h"

namespace mptune::reports {

/// Words for why plans are not among the best ones of a search.
/// "not reached within the limit of the search: a faster one may be among them".
[[nodiscard]] std::string text_of(RejectedAs reason);
/// "schedule gpipe", "m = 32", "3 stages, one device each".
[[nodiscard]] std::string text_of(const PipelineChoice& choice);
/// Why the class is rejected: "at least 4.1 % slower by its lower bound".
[[nodiscard]] std::string text_of(const RejectedClass& rejected);

}  // namespace mptune::reports
