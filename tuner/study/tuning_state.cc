#include "tuner/study/tuning_state.h"

#include <algorithm>
#include <utility>

#include "planner/plan/file/plan_file.h"
#include "tuner/study/recommend/finalists.h"

namespace mptune::tuner {
namespace {

/// Returns how many times the predicted step the plans of this run took, where other programs load the machine; at least 1.
double slowdown(const TuningState& state) {
  std::vector<double> ratios;
  for (std::size_t i = state.earlier; i < state.trials.size(); ++i) {
    const Trial& trial = state.trials[i];
    if (const auto step_s = measured_step(trial); step_s && trial.prediction && trial.prediction->step_s > 0)
      ratios.push_back(*step_s / trial.prediction->step_s);
  }
  return ratios.empty() ? 1 : std::max(1.0, median(std::move(ratios)));
}

}  // namespace

bool is_settled(const TuningState& state, const Plan& plan) {
  const std::string key = plan_key(plan);
  const Trial* trial = finished_trial(state.trials, key);
  return trial != nullptr && (measured_step(*trial) || !state.retry.contains(key));
}

bool awaits_first_trial(const TuningState& state) {
  return state.needs_final && std::ranges::none_of(state.trials, [](const Trial& trial) { return measured_step(trial).has_value(); });
}

double own_step_s(const TuningState& state, const Plan& plan) {
  const Trial* trial = finished_trial(state.trials, plan_key(plan));
  return trial == nullptr ? 0 : measured_step(*trial).value_or(0);
}

double expected_step_s(const TuningState& state, const std::optional<Prediction>& prediction) {
  return slowdown(state) * (prediction ? prediction->step_s : 0);
}

std::vector<const planner::NamedPlan*> baselines_to_try(const TuningState& state, double left_s) {
  std::vector<std::pair<double, const planner::NamedPlan*>> open;  // baselines with their expected steps
  double all_s = 0;
  for (const planner::NamedPlan& baseline : state.baselines) {
    if (is_settled(state, baseline.plan)) continue;
    open.emplace_back(expected_step_s(state, prediction_of(baseline.plan, state.profile)), &baseline);
    all_s += state.times.trial_s(open.back().first);
  }
  if (all_s > left_s) std::ranges::stable_sort(open, {}, &std::pair<double, const planner::NamedPlan*>::first);
  std::vector<const planner::NamedPlan*> baselines;
  for (const auto& [step_s, baseline] : open) baselines.push_back(baseline);
  return baselines;
}

std::vector<Series::Entry> finalists_so_far(const TuningState& state) {
  return choose_finalists(state.trials, state.baselines, single_device_peak(state.baselines, state.trials, state.profile));
}

}  // namespace mptune::tuner
