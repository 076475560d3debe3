#pragma once

#include <string>

#include "planner/search/search_result.h"
#include "tuner/study/budget.h"
#include "tuner/study/store/study.h"
#include "tuner/study/tune.h"
#include "tuner/study/tuning_state.h"
#include "tuner/trial/trial.h"

namespace mptune::tuner {

/// A run of `tune`: what it was given, when it began, and what it knows. Its phases are functions that take it. It does not own what it was
/// given.
struct TuningRun {
  const TuneOptions& options;
  Study& study;
  const TuneServices& services;
  double started_s = 0;  ///< by services.clock
  TuningState state;

  [[nodiscard]] double elapsed_s() const { return services.clock() - started_s; }
  [[nodiscard]] double left_s() const { return options.budget_s - elapsed_s(); }  ///< below 0: the budget is exceeded
};

void report_progress(const TuningRun& run, const std::string& what);

/// Returns the space of the run, with a search that ends with the time of the phase, which begins now. `run` must outlive it.
[[nodiscard]] SearchSpace space_in_time(const TuningRun& run, Phase phase);
/// Returns the best plans by a profile that a search finds in the time of the phase.
[[nodiscard]] SearchResult search_in_time(const TuningRun& run, Phase phase, const Profile& profile);

/// Returns the time kept for traces; 0 where none are made.
[[nodiscard]] double reserve_for_traces_s(const TuningRun& run);

/// Returns true if the end of the budget cut the trial short. Throws Error (interrupted) where the user did.
[[nodiscard]] bool had_no_time(const TuningRun& run, const Trial& trial);
[[noreturn]] void throw_interrupted(const TuningRun& run);

/// Keeps the plan of a trial that failed, so that it can be run by itself.
void keep_if_failed(const TuningRun& run, const Trial& trial);

/// Ends a run without any measured plan: throws the Error of no_result.h that says why.
[[noreturn]] void refuse_without_measurement(const TuningRun& run);

}  // namespace mptune::tuner
