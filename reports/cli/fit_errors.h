#pragma once

#include <string>
#include <vector>

#include "planner/advise/fit.h"
#include "planner/plan_file.h"
#include "planner/search/search.h"
#include "profiler/base/error.h"
#include "profiler/trace/profile.h"
#include "tuner/trial/setup.h"
#include "tuner/trial/trial.h"

namespace mptune::reports {

/// The profile with these caps (per name; absent or 0: as the profile says) for its devices.
[[nodiscard]] Profile with_caps(Profile profile, const std::vector<std::string>& devices, const std::vector<std::int64_t>& memory_bytes);

/// Whether the plan fits the profile's caps, and the smallest changes of it if not; `devices` are those that plans may use.
[[nodiscard]] planner::FitAnswer fit_of(const Plan& plan, const std::vector<std::string>& devices, const Profile& profile);

/// The one-line error of a plan that does not fit: what it needs, and the smallest change. Requires: it does not fit.
[[nodiscard]] Error does_not_fit(const planner::FitAnswer& answer);
/// The same of a search that found nothing.
[[nodiscard]] Error nothing_fits(const SearchSpace& space, const SearchResult& failed, const CostModel& cost);

/// What to do when a plan that was predicted to fit ran out of memory: the smallest changes that need clearly less where it did.
[[nodiscard]] Error ran_out_anyway(const Error& error, const tuner::OutOfMemory& memory, const Plan& plan,
                                   const std::vector<std::string>& devices, Profile profile);

/// Refuses a plan whose own file says that it needs more than the setup's caps (measured peaks, else predicted ones); `memory` is what was
/// typed for them.
void refuse_by_plan_file(const PlanFile& file, const tuner::TrainingSetup& setup, const std::string& memory, const std::string& path);
/// What to do where only the plan is known; `caps` is what was typed for --memory.
[[nodiscard]] Error ran_out_of_plan(const Error& error, const tuner::OutOfMemory& memory, const Plan& plan, const std::string& model,
                                    const std::string& caps);

}  // namespace mptune::reports
