#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "tuner/study/recommend/reasons.h"
#include "tuner/study/store/summary.h"
#include "tuner/trial/trial.h"

namespace mptune::tuner {

/// A plan without a measurement in the final series.
struct UnmeasuredPlan {
  std::string name;  ///< of the baseline, or "candidate"
  std::string plan_key;
  std::optional<Plan> plan;  ///< empty: never tried
  std::string description;
  double predicted_step_s = 0;    ///< 0: not predicted
  std::optional<double> alone_s;  ///< step of its own trial, where that trial was measured
  WhyNot why;
};

/// What a recommendation could not compare.
struct Unmeasured {
  std::vector<UnmeasuredPlan> baselines;
  std::vector<UnmeasuredPlan> candidates;  ///< candidates whose last trial failed
};

/// Returns baselines without a measurement in `final_series`, and candidates whose last trial of `all` failed. `all` is in the order of the
/// trials.
[[nodiscard]] Unmeasured unmeasured_plans(const std::vector<Trial>& final_series, const std::vector<Trial>& all,
                                          const std::vector<PlannedBaseline>& baselines);

/// Plans that failed for one cause.
struct FailedAlike {
  Outcome cause;  ///< sizes and reasons in which the plans differ are left out
  std::vector<UnmeasuredPlan> plans;
};
/// Returns the failed ones of `plans` by cause; causes are in the order of their first plans.
[[nodiscard]] std::vector<FailedAlike> by_cause(const std::vector<UnmeasuredPlan>& plans);

/// Returns a warning per cause: for baselines and finalists that failed, baselines without a trial, and failed candidates that were
/// predicted to take less than `predicted_step_s` (0: none).
[[nodiscard]] std::vector<Warning> warnings_of(const Unmeasured& unmeasured, double predicted_step_s);

}  // namespace mptune::tuner
