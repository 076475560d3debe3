#include "tuner/study/tune.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "planner/cost/pool_costs.h"
#include "planner/cost/variants.h"
#include "planner/plan/file/plan_file.h"
#include "planner/plan/plan_words.h"
#include "planner/search/space/suited_space.h"
#include "profiler/trace/store/store.h"
#include "tuner/study/last_series.h"
#include "tuner/study/no_result.h"
#include "tuner/study/recommend/finalists.h"
#include "tuner/study/record_traces.h"
#include "tuner/study/retry.h"
#include "tuner/study/try_plans.h"
#include "tuner/study/tuning_run.h"

namespace mptune::tuner {
namespace {

/// Ends a run whose budget is spent before its next phase, rather than exceed it by the whole of that phase.
void require_time(const TuningRun& run, const std::string& phase) {
  if (run.left_s() > 0 || !run.study.trials().empty()) return;
  throw BudgetTooSmall("the budget was spent before the " + phase, 0);
}

void check_model(const TuningRun& run) {
  if (!run.services.check || run.study.checked()) return;
  report_progress(run, "check");
  if (run.services.check(time_of(Phase::check, run.left_s()))) run.study.set_checked();
}

Profile obtain_profile(const TuningRun& run) {
  if (std::filesystem::exists(run.study.profile_path())) {
    if (auto profile = profiler::read_recording(run.study.profile_path()).profile) return planner::with_pool_devices(std::move(*profile));
  }
  report_progress(run, "profile");
  return planner::with_pool_devices(run.services.measure(time_of(Phase::measure, run.left_s())));
}

SearchSpace space_for(const TuneOptions& options, const Profile& profile) {
  SearchSpace space = planner::suited_space(options.space, profile.layers);
  std::erase_if(space.variants, [&](const ExecutionVariant& variant) { return !planner::has_variant(profile, variant); });
  return space;
}

/// Makes the plan that was asked for the fastest of those that the options allow, by the trials so far where there are any.
void choose_asked(TuningState& state) {
  const auto asked = std::ranges::find(state.baselines, planner::kAskedBaseline, &planner::NamedPlan::name);
  if (asked == state.baselines.end()) return;
  if (const Trial* fastest = fastest_allowed(state.trials, state.search.ranked)) asked->plan = fastest->plan;
}

std::vector<planner::NamedPlan> baselines_of(const TuneOptions& options, const TuningState& state) {
  auto baselines = planner::baseline_plans(state.space, static_cast<int>(state.profile.layers.size()), state.profile.precision);
  if (options.current) baselines.insert(baselines.begin(), {planner::kCurrentBaseline, *options.current});
  // Baselines stay the same, whatever plans the options allow; the fastest allowed plan is measured besides them.
  if (!options.asked.empty() && !state.search.ranked.empty())
    baselines.insert(baselines.begin(), {planner::kAskedBaseline, state.search.ranked.front().plan});
  return baselines;
}

/// Finds out all that is known before the first trial of this run.
void prepare(TuningRun& run) {
  TuningState& state = run.state;
  check_model(run);
  require_time(run, "profile");
  state.profile = obtain_profile(run);
  state.space = space_for(run.options, state.profile);
  state.search = search_in_time(run, Phase::search, state.profile);
  state.baselines = baselines_of(run.options, state);
  state.trials = run.study.trials();
  choose_asked(state);
  state.earlier = state.trials.size();
  const std::vector<std::string> again = plans_to_retry(state.trials);
  state.retry = {again.begin(), again.end()};
  state.needs_final = needs_last_series(run.study, state);
}

bool is_finished(const TuningState& state) {
  return !state.needs_final && state.retry.empty() &&
         std::ranges::all_of(state.baselines, [&](const planner::NamedPlan& baseline) { return is_settled(state, baseline.plan); });
}

void measure_plans(TuningRun& run) {
  try_baselines(run);
  explore(run);
  choose_asked(run.state);
  if (!run.state.needs_final && run.state.times.trials() == 0) return;
  remove_old_traces(run.study);
  run_last_series(run);
}

std::vector<PlannedBaseline> planned_baselines(const TuningState& state) {
  std::vector<PlannedBaseline> planned;
  for (const auto& [name, plan] : state.baselines)
    planned.push_back({name, plan_key(plan), describe(plan), prediction_of(plan, state.profile).value_or(Prediction{}).step_s});
  return planned;
}

std::vector<Trial> trials_of_last_series(const TuningRun& run) {
  const std::optional<int> number = run.study.final_series();
  if (!number) refuse_without_measurement(run);
  std::vector<Trial> finals;
  std::ranges::copy_if(run.state.trials, std::back_inserter(finals), [&](const Trial& trial) { return trial.series == number; });
  return with_every_name(std::move(finals), run.state.baselines);
}

Recommendation make_recommendation(const TuningRun& run, const std::vector<Trial>& finals, const std::vector<PlannedBaseline>& baselines) {
  const TuningState& state = run.state;
  auto recommendation = recommend(finals, single_device_peak(state.baselines, state.trials, state.profile), run.study.not_benchmarked(),
                                  unmeasured_plans(finals, state.trials, baselines));
  if (!recommendation) refuse_without_measurement(run);
  warn_of_changes(*recommendation, state.profile.layers);
  say_what_was_asked(*recommendation, run.options.asked);
  return std::move(*recommendation);
}

TuneResult conclude(const TuningRun& run) {
  const TuningState& state = run.state;
  const std::vector<Trial> finals = trials_of_last_series(run);
  TuneResult result;
  result.baselines = planned_baselines(state);
  result.recommendation = make_recommendation(run, finals, result.baselines);
  result.kind_facts = kind_facts(state.space, state.search, CostModel(state.profile));
  result.kind_facts.other_devices = other_devices(space_in_time(run, Phase::outlook), state.profile);
  result.recommendation.kinds = compare_kinds(result.recommendation.recommended, finals, state.trials, result.kind_facts);
  result.trials = state.trials;
  result.search = state.search;
  result.co_running_slowdown = state.profile.co_running_slowdown;
  result.lower_bound_s = state.search.lower_bound_s;
  if (result.lower_bound_s > 0) result.gap = result.recommendation.recommended.step_s / result.lower_bound_s - 1;
  result.stop_reason = run.study.stop_reason();
  return result;
}

}  // namespace

TuneResult tune(const TuneOptions& options, Study& study, const TuneServices& services) {
  TuningRun run{options, study, services, services.clock(), {}};
  run.state.times = TrialTimes(options.worker_s);
  prepare(run);
  if (!is_finished(run.state)) measure_plans(run);
  TuneResult result = conclude(run);
  record_traces(run, result.recommendation);
  result.elapsed_s = run.elapsed_s();
  return result;
}

}  // namespace mptune::tuner
