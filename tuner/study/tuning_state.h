#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/search/baselines.h"
#include "planner/search/search_result.h"
#include "profiler/trace/values/profile.h"
#include "tuner/study/trial_times.h"
#include "tuner/trial/trial.h"

namespace mptune::tuner {

/// What a run of `tune` knows so far. It is a value: the functions below and those of reserves.h are pure.
struct TuningState {
  Profile profile;
  SearchSpace space;  ///< without execution variants that were not measured
  SearchResult search;
  std::vector<planner::NamedPlan> baselines;
  std::vector<Trial> trials;    ///< all trials of the study
  std::size_t earlier = 0;      ///< this many of `trials`, the first ones, are of earlier runs
  std::set<std::string> retry;  ///< keys of plans whose failure in an earlier run may be gone; this run has not tried them yet
  bool needs_final = true;      ///< the study has no last series, or one that lacks plans
  TrialTimes times{};           ///< times of this run's trials
};

/// Returns true if this run need not try the plan.
[[nodiscard]] bool is_settled(const TuningState& state, const Plan& plan);

/// Returns true if an answer still needs its first trial. Its one timed step is worth all the time that is left.
[[nodiscard]] bool awaits_first_trial(const TuningState& state);

/// Returns the median step of the plan's own trial [s]; 0 where it was not measured.
[[nodiscard]] double own_step_s(const TuningState& state, const Plan& plan);

/// Returns the step of a plan with this prediction on the machine as it is now [s]: longer than predicted where the plans of this run took
/// longer. Returns 0 without a prediction.
[[nodiscard]] double expected_step_s(const TuningState& state, const std::optional<Prediction>& prediction);

/// Returns the baselines that this run has to try: in their order where all have time within `left_s`, else those predicted to be fastest
/// first. They point into `state`, which must outlive them.
[[nodiscard]] std::vector<const planner::NamedPlan*> baselines_to_try(const TuningState& state, double left_s);

/// Returns the plans of the last series by the trials so far: see choose_finalists.
[[nodiscard]] std::vector<Series::Entry> finalists_so_far(const TuningState& state);

}  // namespace mptune::tuner
