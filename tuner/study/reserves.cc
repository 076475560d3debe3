#include "tuner/study/reserves.h"

#include <algorithm>

#include "planner/plan/parallelism.h"
#include "profiler/trace/statistics/samples.h"
#include "profiler/trace/statistics/verdict.h"

namespace mptune::tuner {
namespace {

constexpr double kTraceShare = 0.15;  // the most that traces may take of the budget
constexpr double kTraceMargin = 1.25;
constexpr int kRoundsAfterCandidate = 12;
constexpr int kRoundsAfterFirstOfKind = static_cast<int>(kLeastForInterval);
constexpr std::size_t kLeading = 3;

/// Returns what the last series takes for a verdict on the plans so far that the answer leads with.
double leading_series_s(const TuningState& state) {
  std::vector<Series::Entry> entries = finalists_so_far(state);
  while (entries.size() > kLeading) static_cast<void>(take_least_important(entries));
  return entries.size() < 2 ? 0 : series_s(state, entries, kLeastPairs);
}

bool is_first_of_kind(const TuningState& state, const Plan& candidate) {
  return candidate.num_stages() > 1 && std::ranges::none_of(state.trials, [&](const Trial& trial) {
           return trial.name == kCandidateName && planner::parallelism_of(trial.plan) == planner::parallelism_of(candidate);
         });
}

}  // namespace

double series_s(const TuningState& state, const std::vector<Series::Entry>& entries, int rounds) {
  std::vector<double> steps_s;
  for (const Series::Entry& entry : entries) steps_s.push_back(own_step_s(state, entry.plan));
  return state.times.series_s(steps_s, rounds);
}

SeriesCost series_cost(const TuningState& state) {
  return [&state](const std::vector<Series::Entry>& entries, int rounds) { return series_s(state, entries, rounds); };
}

double trace_s(const TuningState& state, const Plan& plan) {
  return state.times.recording_s(own_step_s(state, plan));
}

double series_after_baseline_s(const TuningState& state, double step_s) {
  return std::max(series_s(state, finalists_so_far(state), 1) + step_s * (TrialTimes::kWarmUp + 1), leading_series_s(state));
}

double series_after_candidate_s(const TuningState& state, const Plan& candidate) {
  const int rounds = is_first_of_kind(state, candidate) ? kRoundsAfterFirstOfKind : kRoundsAfterCandidate;
  return series_s(state, finalists_so_far(state), rounds);
}

double reserve_for_traces_s(const TuningState& state, double budget_s) {
  const std::vector<Series::Entry> entries = finalists_so_far(state);
  const auto fastest_of = [&](auto condition) {
    const Series::Entry* fastest = nullptr;
    for (const Series::Entry& entry : entries)
      if (condition(entry) && (fastest == nullptr || own_step_s(state, entry.plan) < own_step_s(state, fastest->plan))) fastest = &entry;
    return fastest;
  };
  const Series::Entry* fastest = fastest_of([](const Series::Entry&) { return true; });
  const Series::Entry* pipeline = fastest_of([](const Series::Entry& entry) { return entry.plan.num_stages() > 1; });
  const Series::Entry* naive = fastest_of([](const Series::Entry& entry) { return entry.name == planner::kNaiveBaseline; });
  double all_s = 0;
  for (const Series::Entry* traced : {fastest, pipeline == fastest ? nullptr : pipeline, naive}) {
    if (traced == nullptr) continue;
    const double one_s = kTraceMargin * trace_s(state, traced->plan);
    if (!state.needs_final || all_s + one_s <= kTraceShare * budget_s) all_s += one_s;
  }
  return all_s;
}

}  // namespace mptune::tuner
