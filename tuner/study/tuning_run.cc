#include "tuner/study/tuning_run.h"

#include <algorithm>
#include <utility>

#include "planner/search/search.h"
#include "tuner/study/no_result.h"
#include "tuner/study/recommend/finalists.h"
#include "tuner/study/reserves.h"
#include "tuner/worker/host/interrupt.h"

namespace mptune::tuner {

void report_progress(const TuningRun& run, const std::string& what) {
  if (run.services.progress) run.services.progress(what, std::clamp(run.elapsed_s() / std::max(run.options.budget_s, 1e-9), 0.0, 1.0));
}

SearchSpace space_in_time(const TuningRun& run, Phase phase) {
  const double start_s = run.elapsed_s();
  SearchSpace space = run.state.space;
  space.stop = [&run, start_s, share_s = time_of(phase, run.options.budget_s - start_s).share_s](double part) {
    return run.elapsed_s() - start_s >= part * share_s;
  };
  return space;
}

SearchResult search_in_time(const TuningRun& run, Phase phase, const Profile& profile) {
  report_progress(run, "search");
  return search_plans(space_in_time(run, phase), profile);
}

double reserve_for_traces_s(const TuningRun& run) {
  return run.services.record ? reserve_for_traces_s(run.state, run.options.budget_s) : 0;
}

bool had_no_time(const TuningRun& run, const Trial& trial) {
  const auto* cut = std::get_if<Interrupted>(&trial.outcome);
  if (cut != nullptr && !cut->out_of_time) throw_interrupted(run);
  return cut != nullptr;
}

void throw_interrupted(const TuningRun& run) {
  throw interrupt_error(run.study.folder(), "every finished trial is kept");
}

void keep_if_failed(const TuningRun& run, const Trial& trial) {
  if (run.services.keep_failed && !measured_step(trial)) static_cast<void>(run.services.keep_failed(trial));
}

void refuse_without_measurement(const TuningRun& run) {
  const TuningState& state = run.state;
  // A search without time says nothing about memory.
  if (state.trials.empty() && (!state.search.ranked.empty() || run.left_s() <= 0 || was_cut_off(state.search)))
    throw no_time_for_a_trial(state.search, state.baselines, state.profile, run.options.worker_s);
  throw no_result(state.search, state.trials, run.services.keep_failed);
}

}  // namespace mptune::tuner
