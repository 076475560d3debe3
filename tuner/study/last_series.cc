#include "tuner/study/last_series.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/plan/file/plan_file.h"
#include "planner/plan/plan_words.h"
#include "profiler/base/text.h"
#include "tuner/study/recommend/finalists.h"
#include "tuner/study/reserves.h"

namespace mptune::tuner {
namespace {

constexpr int kMostFinalRounds = 40;

bool is_in_last_series(const Study& study, const TuningState& state, const Plan& plan) {
  const std::string key = plan_key(plan);
  const std::optional<int> number = study.final_series();
  return std::ranges::any_of(state.trials, [&](const Trial& trial) { return trial.series == number && trial.plan_key == key; });
}

double budget_of_series_s(const TuningRun& run) {
  return std::max(0.0, run.left_s() - reserve_for_traces_s(run));
}

double fastest_step_s(const TuningState& state, const std::vector<Series::Entry>& entries) {
  return own_step_s(state, std::ranges::max(entries, {}, &Series::Entry::importance).plan);
}

bool may_be_fastest(const TuningState& state, const Plan& plan, double fastest_s) {
  return own_step_s(state, plan) <= kRivalWithin * fastest_s;
}

/// Leaves out finalists that there is no time for. Returns the descriptions of those that may be the fastest.
std::string drop_those_without_time(const TuningRun& run, std::vector<Series::Entry>& entries) {
  const TuningState& state = run.state;
  std::string rivals;
  for (const Series::Entry& dropped : take_those_without_time(entries, series_cost(state), budget_of_series_s(run), run.left_s()))
    if (may_be_fastest(state, dropped.plan, fastest_step_s(state, entries)))
      rivals += (rivals.empty() ? "" : "; ") + describe(dropped.plan);
  return rivals;
}

Series last_series_of(const TuningRun& run, const std::vector<Series::Entry>& entries) {
  const TuningState& state = run.state;
  Series series;
  series.entries = entries;
  series.warm_up = TrialTimes::kWarmUp;
  series.rounds = kMostFinalRounds;
  series.least_rounds = least_rounds(entries, series_cost(state), budget_of_series_s(run));
  series.step_limit_s = 0;
  for (const Series::Entry& entry : entries) {
    const double predicted_s = entry.prediction ? entry.prediction->step_s : 0;
    series.step_limit_s = std::max(series.step_limit_s, TrialTimes::step_limit_s(std::max(own_step_s(state, entry.plan), predicted_s)));
  }
  series.budget_s = budget_of_series_s(run);
  series.ends_s = run.left_s();
  return series;
}

/// A series that was cut short has steps but no peaks; the peaks of the plan's own trial are as good.
void fill_peaks(const TuningState& state, Trial& trial) {
  auto* measured = std::get_if<Measured>(&trial.outcome);
  const Trial* before = finished_trial(state.trials, trial.plan_key);
  const auto* known = before == nullptr ? nullptr : std::get_if<Measured>(&before->outcome);
  if (measured != nullptr && known != nullptr && measured->peak_bytes.empty()) measured->peak_bytes = known->peak_bytes;
}

void store(TuningRun& run, std::vector<Trial> finals) {
  const int number = run.study.next_series();
  bool measured = false;
  for (Trial& trial : finals) {
    trial.series = number;
    fill_peaks(run.state, trial);
    run.study.add(trial);
    run.state.trials.push_back(trial);
    keep_if_failed(run, trial);
    measured = measured || measured_step(trial);
  }
  if (measured) run.study.set_final_series(number);
}

/// Lets the own trial of a plan take the place of the last series.
void count_own_trial(TuningRun& run, const Plan& plan) {
  run.study.set_final_series(finished_trial(run.state.trials, plan_key(plan))->series);
}

/// Notes the finalists that the series had no time for and that may be the fastest, besides those dropped before it.
void note_late(TuningRun& run, std::vector<Series::Entry> late, double fastest_s, const std::string& dropped) {
  if (!run.study.final_series()) {
    const auto fastest = std::ranges::min_element(late, {}, [&](const Series::Entry& entry) { return own_step_s(run.state, entry.plan); });
    count_own_trial(run, fastest->plan);
    late.erase(fastest);
  }
  std::vector<std::string> descriptions;
  if (!dropped.empty()) descriptions.push_back(dropped);
  for (const Series::Entry& entry : late)
    if (may_be_fastest(run.state, entry.plan, fastest_s)) descriptions.push_back(describe(entry.plan));
  run.study.set_not_benchmarked(join(descriptions, "; "));
}

}  // namespace

bool needs_last_series(const Study& study, const TuningState& state) {
  if (!study.final_series() || !study.not_benchmarked().empty()) return true;
  const auto was_measured = [&](const std::string& key) { return measured_step(*finished_trial(state.trials, key)).has_value(); };
  if (std::ranges::any_of(state.retry, was_measured)) return true;
  return std::ranges::any_of(state.baselines, [&](const planner::NamedPlan& baseline) {
    return own_step_s(state, baseline.plan) > 0 && !is_in_last_series(study, state, baseline.plan);
  });
}

void run_last_series(TuningRun& run) {
  std::vector<Series::Entry> entries = finalists_so_far(run.state);
  if (entries.empty()) refuse_without_measurement(run);
  const std::string dropped = drop_those_without_time(run, entries);
  run.study.set_not_benchmarked(dropped);
  // There is one finalist, and no time to measure it again.
  if (entries.size() == 1 && series_s(run.state, entries, 1) > run.left_s()) return count_own_trial(run, entries.front().plan);
  const Series series = last_series_of(run, entries);
  report_progress(run, "final: " + std::to_string(entries.size()) + " plans benchmarked interleaved");
  std::vector<Trial> finals = run.services.runner->run(series);
  std::vector<Series::Entry> late;
  for (std::size_t i = 0; i < finals.size(); ++i)
    if (had_no_time(run, finals[i])) late.push_back(entries[i]);
  std::erase_if(finals, [&](const Trial& trial) { return had_no_time(run, trial); });
  store(run, std::move(finals));
  if (!late.empty()) note_late(run, std::move(late), fastest_step_s(run.state, entries), dropped);
}

}  // namespace mptune::tuner
