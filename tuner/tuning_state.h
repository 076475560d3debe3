#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/search/search.h"
#include "profiler/trace/profile.h"
#include "tuner/trial/trial.h"
#include "tuner/trial_times.h"

namespace mptune::tuner {

/// What a run of `tune` knows so far. A value: the functions below and those of reserves.h are pure.
struct TuningState {
  Profile profile;
  SearchSpace space;  ///< without execution variants that were not measured
  SearchResult search;
  std::vector<NamedPlan> baselines;
  std::vector<Trial> trials;    ///< all of the study
  std::size_t earlier = 0;      ///< of `trials`: the first so many are of earlier runs
  std::set<std::string> retry;  ///< keys of plans whose failure in an earlier run may be gone; this run has not tried them yet
  bool needs_final = true;      ///< the study has no last series, or one that lacks plans
  TrialTimes times{};           ///< of this run's trials
};

/// True if this run need not try the plan.
[[nodiscard]] bool is_settled(const TuningState& state, const Plan& plan);

/// True if an answer still needs its first trial. Its one timed step is worth all the time that is left.
[[nodiscard]] bool awaits_first_trial(const TuningState& state);

/// Median step of the plan's own trial [s]; 0: not measured.
[[nodiscard]] double own_step_s(const TuningState& state, const Plan& plan);

/// Step of a plan with this prediction on the machine as it is now [s]: longer than predicted where the plans of this run took longer.
/// 0: not predicted.
[[nodiscard]] double expected_step_s(const TuningState& state, const std::optional<Prediction>& prediction);

/// Baselines that this run has to try: in their order where all have time within `left_s`, else the fastest predicted first. They are those
/// of `state`, which must outlive them.
[[nodiscard]] std::vector<const NamedPlan*> baselines_to_try(const TuningState& state, double left_s);

/// Plans of the last series by the trials so far: see choose_finalists.
[[nodiscard]] std::vector<Series::Entry> finalists_so_far(const TuningState& state);

}  // namespace mptune::tuner
