#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/advise/fit.h"
#include "planner/plan_file.h"
#include "planner/search/search.h"
#include "profiler/base/error.h"
#include "profiler/trace/profile.h"
#include "profiler/trace/training_spec.h"
#include "tuner/trial/setup.h"
#include "tuner/trial/trial.h"

namespace mptune::reports {

/// The setup's cap of each device; 0: none.
[[nodiscard]] std::vector<std::int64_t> caps_of(const std::vector<std::string>& devices, const tuner::TrainingSetup& setup);

/// The profile with these caps (per name; absent or 0: as the profile says) for its devices.
[[nodiscard]] Profile with_caps(Profile profile, const std::vector<std::string>& devices, const std::vector<std::int64_t>& memory_bytes);

/// Whether the plan fits the profile's caps, and if not, the smallest changes that do. Changed plans may use `devices`.
[[nodiscard]] planner::FitAnswer fit_of(const Plan& plan, const std::vector<std::string>& devices, const Profile& profile);

/// The one-line error of a plan that does not fit: what it needs, and the smallest change. Requires: it does not fit.
[[nodiscard]] Error does_not_fit(const planner::FitAnswer& answer);
/// The same of a search that found nothing.
[[nodiscard]] Error nothing_fits(const SearchSpace& space, const SearchResult& failed, const CostModel& cost);

/// The error of a plan that ran out of memory although it was predicted to fit. Its remedy: the smallest changes that are predicted to need
/// clearly less memory on that device.
[[nodiscard]] Error ran_out_anyway(const Error& error, const tuner::OutOfMemory& memory, const Plan& plan,
                                   const std::vector<std::string>& devices, Profile profile);

/// Throws Error if the plan file's peaks (measured, else predicted) are above the setup's caps.
void refuse_by_plan_file(const PlanFile& file, const tuner::TrainingSetup& setup, const TrainingSpec& training, const std::string& path);
/// The error of a plan that ran out of memory where there is no profile, only the plan.
[[nodiscard]] Error ran_out_of_plan(const Error& error, const tuner::OutOfMemory& memory, const Plan& plan, const TrainingSpec& training);

}  // namespace mptune::reports
