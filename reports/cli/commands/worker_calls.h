#pragma once

#include <functional>
#include <optional>
#include <string>

#include "planner/plan/file/plan_file.h"
#include "reports/cli/options/plan_choice.h"
#include "reports/cli/program/progress.h"
#include "tuner/worker/host/worker_watch.h"
#include "tuner/worker/messages.h"

namespace mptune::reports {

/// Returns options to wait until `ends_s` on the steady clock (0: without end); the user is warned of what takes long.
[[nodiscard]] tuner::WaitOptions wait_options(const Session& session, double ends_s = 0);

/// Returns layers, batch and fingerprint of the setup's model. Throws Error.
[[nodiscard]] tuner::DescribedModel describe_model(const tuner::TrainingSetup& setup, const Session& session, double ends_s = 0);

/// The time for measuring layers and links before a plan is recorded or searched.
inline constexpr double kMeasureSeconds = 60;

/// The time of a request, and from when on the steady clock it counts; 0: from when the worker begins with it.
struct RequestTime {
  double budget_s = 0;
  double started_s = 0;
  double most_s = 0;  ///< see tuner::MeasureRequest
};

/// Measures into `path`, in every execution variant that the choice allows, and with the threads of `plan` if it is not null; warns of what
/// the profile lacks. `on_pass`, which may be empty, learns how long the first pass over all layers took. Throws Error, OutOfTime where
/// the time of `wait` was over.
void measure_profile(const tuner::TrainingSetup& setup, const std::string& path, const RequestTime& time, const PlanChoice& choice,
                     const Plan* plan, const Session& session, const tuner::WaitOptions& wait, ProgressLine& progress,
                     const std::function<void(const tuner::PassTimed&)>& on_pass = {});

/// Writes the profile that is estimated for this kind of GPU into `path`; warns of what it lacks. Throws Error.
void estimate_profile(const tuner::TrainingSetup& setup, const std::string& path, const std::string& hardware, const Session& session,
                      const tuner::WaitOptions& wait);

/// Records steps of a plan into `path`. Throws Error.
[[nodiscard]] tuner::Recorded record_plan(const tuner::TrainingSetup& setup, const Plan& plan, int steps, const std::string& path,
                                          const std::string& profile_path, const tuner::WaitOptions& wait, ProgressLine& progress);

/// Compares the model's pieces with the whole model, and the plan where there is one. A budget of 0 means no limit. Throws Error, OutOfTime
/// where the time of `wait` was over.
[[nodiscard]] tuner::CheckResult check_model(const tuner::TrainingSetup& setup, const std::optional<Plan>& plan, const RequestTime& time,
                                             const tuner::WaitOptions& wait, ProgressLine& progress);

/// Throws Error for a plan that names modules in other places than `layers` have them, or a module that they do not have at all; with
/// `renamed` it warns of the latter. It compares only where both sides name modules.
void check_names(const Session& session, const PlanFile& file, const std::vector<ProfileLayer>& layers, const std::string& model,
                 const std::string& path, bool renamed);

/// Warns about every part of the fingerprint that differs; under `--strict` throws Error instead. Only what both sides state is compared.
/// A model of another layer count or with other modules is refused in any case, the latter unless `--allow-renamed` is given.
void check_fingerprint(const Session& session, const PlanFile& file, const tuner::DescribedModel& model, const std::string& path,
                       const PlanChoice& choice);

}  // namespace mptune::reports
