#include "tuner/study/try_plans.h"

#include <algorithm>
#include <utility>

#include "planner/plan/file/plan_file.h"
#include "planner/plan/plan_words.h"
#include "profiler/base/device_spec.h"
#include "profiler/base/index.h"
#include "tuner/study/explore/refit.h"
#include "tuner/study/explore/trial_search.h"
#include "tuner/study/recommend/finalists.h"
#include "tuner/study/reserves.h"
#include "tuner/study/retry.h"
#include "tuner/worker/host/interrupt.h"

namespace mptune::tuner {
namespace {

constexpr int kMostKilled = 2;  // the machine may be out of memory, which harms other programs

/// Sleeping devices allocate nothing, so whether a plan exceeds their caps is decided by its predicted peaks.
std::optional<OutOfMemory> excess_on_sleeping_devices(const SearchSpace& space, const Plan& plan,
                                                      const std::optional<Prediction>& prediction) {
  for (std::size_t d = 0; prediction && d < prediction->peak_bytes.size(); ++d) {
    const auto at = std::ranges::find(space.devices, plan.devices[d]) - space.devices.begin();
    if (at >= std::ssize(space.memory_bytes) || device_kind(plan.devices[d]) != DeviceSpec::Kind::sleep) continue;
    const std::int64_t cap = space.memory_bytes[as_index(at)];
    if (cap > 0 && prediction->peak_bytes[d] > cap) return OutOfMemory{plan.devices[d], prediction->peak_bytes[d], cap};
  }
  return std::nullopt;
}

Series series_of_one(const std::string& name, const Plan& plan, const std::optional<Prediction>& prediction) {
  const double predicted_s = prediction ? prediction->step_s : 0;
  Series series;
  series.entries = {{name, plan, prediction}};
  series.warm_up = TrialTimes::kWarmUp;
  series.rounds = TrialTimes::rounds_for(predicted_s);
  series.step_limit_s = TrialTimes::step_limit_s(predicted_s);
  return series;
}

/// Runs the trial of a plan. Returns null where the budget ended before the first timed step.
const Trial* try_plan(TuningRun& run, const std::string& name, const Plan& plan, const std::optional<Prediction>& prediction,
                      double budget_s) {
  if (interrupt_flag().load() != 0) throw_interrupted(run);
  report_progress(run, name == kCandidateName ? "candidate: " + describe(plan) : "baseline " + name);
  TuningState& state = run.state;
  Series series = series_of_one(name, plan, prediction);
  series.budget_s = std::max(0.0, budget_s);
  series.ends_s = run.left_s();
  const double before_s = run.elapsed_s();
  const auto excess = excess_on_sleeping_devices(state.space, plan, prediction);
  Trial trial = excess ? Trial{.name = name, .plan_key = plan_key(plan), .plan = plan, .prediction = prediction, .outcome = *excess}
                       : std::move(run.services.runner->run(series).front());
  if (had_no_time(run, trial)) return nullptr;
  state.times.note(trial, run.elapsed_s() - before_s);
  trial.series = run.study.next_series();
  run.study.add(trial);
  state.retry.erase(trial.plan_key);
  state.trials.push_back(std::move(trial));
  keep_if_failed(run, state.trials.back());
  return &state.trials.back();
}

/// The search for the next candidate, with the simulator that the trials correct.
struct Exploration {
  TrialSearch search;
  std::optional<Profile> learnt = {};  // corrected by the trials
  bool searched_again = false;
};

/// Corrects the simulator by all trials so far, so that the next one is chosen by better predictions.
void learn(const TuningState& state, Exploration& exploration) {
  const std::optional<Refit> fitted = refit(state.profile, state.trials);
  if (!fitted) return;
  exploration.learnt = with_factors(state.profile, fitted->factors);
  exploration.search.predict_again([&learnt = *exploration.learnt](const Plan& plan) { return prediction_of(plan, learnt); });
}

/// Adds the plans that the corrected simulator finds, once no known plan can win. Returns false where it is not corrected or was asked
/// before.
bool search_again(const TuningRun& run, Exploration& exploration) {
  if (!exploration.learnt || exploration.searched_again || run.left_s() <= 0) return false;
  exploration.searched_again = true;
  exploration.search.add(search_in_time(run, Phase::second_search, *exploration.learnt).ranked);
  return true;
}

std::optional<Candidate> next_candidate(const TuningRun& run, Exploration& exploration) {
  auto candidate = exploration.search.next();
  if (!candidate && search_again(run, exploration)) candidate = exploration.search.next();
  return candidate;
}

/// Tries a candidate. Returns null where there is no time for it.
const Trial* try_candidate(TuningRun& run, const Candidate& candidate) {
  const TuningState& state = run.state;
  const auto prediction = prediction_of(candidate.plan, state.profile);
  const double expected_s = expected_step_s(state, prediction.value_or(candidate.prediction));
  const bool first = awaits_first_trial(state);
  const double kept_s = first ? 0 : series_after_candidate_s(state, candidate.plan) + reserve_for_traces_s(run);
  const double free_s = run.left_s() - kept_s;
  if (free_s < (first ? state.times.least_trial_s(expected_s) : state.times.trial_s(expected_s))) return nullptr;
  return try_plan(run, kCandidateName, candidate.plan, prediction, free_s);
}

}  // namespace

void try_baselines(TuningRun& run) {
  const TuningState& state = run.state;
  for (const planner::NamedPlan* baseline : baselines_to_try(state, run.left_s())) {
    if (is_settled(state, baseline->plan)) continue;  // it was tried as another baseline
    const auto prediction = prediction_of(baseline->plan, state.profile);
    const double expected_s = expected_step_s(state, prediction);
    if (run.left_s() <= 0) break;
    const double final_s = series_after_baseline_s(state, expected_s);
    const double traces_s = state.needs_final ? 0 : reserve_for_traces_s(run);
    const double needed_s =
        awaits_first_trial(state) ? state.times.least_trial_s(expected_s) : state.times.trial_s(expected_s) + final_s + traces_s;
    if (run.left_s() >= needed_s) try_plan(run, baseline->name, baseline->plan, prediction, run.left_s() - final_s);
  }
}

void explore(TuningRun& run) {
  TuningState& state = run.state;
  Exploration exploration{
      TrialSearch(state.search.ranked, {.most_trials = run.options.most_trials, .target_gap = run.options.target_percent / 100})};
  for (const Trial& trial : state.trials)
    if (!state.retry.contains(trial.plan_key) || !worth_retrying(trial.outcome)) exploration.search.observe(trial);
  learn(state, exploration);
  std::string reason = "the budget for trials is spent";
  int killed = 0;  // number of killed trials in a row
  while (true) {
    const auto candidate = next_candidate(run, exploration);
    if (!candidate) {
      reason = exploration.search.stop_reason();
      break;
    }
    const Trial* trial = try_candidate(run, *candidate);
    if (trial == nullptr) break;
    exploration.search.observe(*trial);
    learn(state, exploration);
    killed = was_killed(trial->outcome) ? killed + 1 : 0;
    if (killed == kMostKilled) {
      reason = "two plans in a row were killed, by another program or for lack of memory (dmesg tells): cap the devices with --memory";
      break;
    }
  }
  run.study.set_stop_reason(reason);
}

}  // namespace mptune::tuner
