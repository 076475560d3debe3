#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/advise/fit.h"
#include "planner/advise/fit_choices.h"
#include "planner/plan/file/plan_file.h"
#include "planner/search/search_result.h"
#include "profiler/base/error.h"
#include "profiler/trace/values/profile.h"
#include "profiler/trace/values/training_spec.h"
#include "reports/cli/options/plan_choice.h"
#include "tuner/trial/setup.h"
#include "tuner/trial/trial.h"

namespace mptune::reports {

/// Returns the setup's cap of each device; 0 for none.
[[nodiscard]] std::vector<std::int64_t> caps_of(const std::vector<std::string>& devices, const tuner::TrainingSetup& setup);

/// Returns the profile with these caps (per name; absent or 0: as the profile says) for its devices.
[[nodiscard]] Profile with_caps(Profile profile, const std::vector<std::string>& devices, const std::vector<std::int64_t>& memory_bytes);

/// Says whether the plan fits the profile's caps, and if not, which smallest changes make it fit. Changed plans may use `devices`.
[[nodiscard]] planner::FitAnswer fit_of(const Plan& plan, const std::vector<std::string>& devices, const Profile& profile);

/// Returns the one-line error of a plan that does not fit: what it needs, and the smallest change. Requires: it does not fit.
[[nodiscard]] Error does_not_fit(const planner::FitAnswer& answer);
/// Returns the error of a search that found nothing, with the changes with which `search_with` found a plan.
[[nodiscard]] Error nothing_fits(const SearchSpace& space, const SearchResult& failed, const Profile& profile,
                                 const planner::SearchWith& search_with);
/// Returns the error with another remedy.
[[nodiscard]] Error with_remedy(const Error& error, const std::string& remedy);
/// Returns the choice with `options` in place of those that say otherwise. Options that are not part of a plan (devices, memory, batch) are
/// passed over.
[[nodiscard]] PlanChoice with_options(PlanChoice choice, const std::vector<planner::FieldValue>& options);
/// Returns the option's value, or `otherwise` where it is not among them.
[[nodiscard]] std::string option_or(const std::vector<planner::FieldValue>& options, planner::Field field, const std::string& otherwise);

/// Returns the error of a plan that ran out of memory although it was predicted to fit. Its remedy: the smallest changes that are predicted
/// to need clearly less memory on that device.
[[nodiscard]] Error ran_out_anyway(const Error& error, const tuner::OutOfMemory& memory, const Plan& plan,
                                   const std::vector<std::string>& devices, Profile profile);

/// Throws Error if the plan file's peaks (measured, else predicted) are above the setup's caps.
void refuse_by_plan_file(const PlanFile& file, const tuner::TrainingSetup& setup, const TrainingSpec& training, const std::string& path);
/// Returns the error of a plan that ran out of memory where there is no profile, only the plan.
[[nodiscard]] Error ran_out_of_plan(const Error& error, const tuner::OutOfMemory& memory, const Plan& plan, const TrainingSpec& training);

/// Returns what `make` makes of changed options; nullopt where they contradict each other, as --memory for a device that is left out.
template <class Make>
[[nodiscard]] auto if_options_agree(const Make& make) -> std::optional<decltype(make())> {
  try {
    return make();
  } catch (const Error& error) {
    if (error.code() != ExitCode::usage && error.code() != ExitCode::infeasible) throw;
    return std::nullopt;
  }
}

}  // namespace mptune::reports
