#pragma once

#include <string>

#include "planner/plan/numerics.h"
#include "planner/search/search_result.h"
#include "tuner/study/explore/refit.h"

namespace mptune::reports {

/// Says why plans are not among the best ones of a search: "not reached within the limit of the search: a faster one may be among them".
[[nodiscard]] std::string text_of(RejectedAs reason);
/// Describes a class of plans: "schedule gpipe", "m = 32", "3 stages, one device each".
[[nodiscard]] std::string text_of(const PipelineChoice& choice);
/// Says why the class is rejected: "at least 4.1 % slower by its lower bound".
[[nodiscard]] std::string text_of(const RejectedClass& rejected);
/// Says which numbers of stages per device were searched; "" where the space says it: "1 to 5 of at most 8 stages per device searched: 4
/// and 5 had nothing faster".
[[nodiscard]] std::string text_of(const StagesPerDevice& stages);

/// Returns "training is not that of one device: bn1 and 3 more layers normalise over 4 samples, not over 32; --keep-numerics ...".
[[nodiscard]] std::string text_of(const planner::ChangedNumerics& changed);

/// Returns "the simulator's error: 6.0 % before the trials, 3.1 % fitted to 9 of them (computing 1.04x, actions 1.30x, copies 0.95x)".
[[nodiscard]] std::string text_of(const tuner::Refit& refit);

}  // namespace mptune::reports
