#include "tuner/study/budget.h"

#include <algorithm>

#include "profiler/trace/statistics/samples.h"
#include "tuner/study/trial_times.h"

namespace mptune::tuner {
namespace {

constexpr int kRoundsOfAnswer = static_cast<int>(kLeastForInterval);
constexpr double kTimeElsewhere = 1.5;  // for checking, searching, and a machine that is slower than predicted
// In multiples of the first pass: at least two sizes are measured, the second twice the first, each with a split pass, a whole pass and one
// without gradients.
constexpr double kPassesOfTheLeast = 7;

}  // namespace

PhaseTime time_of(Phase phase, double left_s) {
  const double left = std::max(0.0, left_s);
  switch (phase) {
    case Phase::check:
      return {left / 10, 3 * left / 10};
    case Phase::measure:
      return {left / 4, left};
    case Phase::search:
      return {left / 50, left / 50};
    case Phase::second_search:
      return {left / 100, left / 100};
    case Phase::outlook:
      break;
  }
  return {left / 200, left / 200};
}

double grace_without_result(double budget_s) {
  return std::min(1.0, budget_s / 20);
}

double enough_for_answer(const AnswerNeeds& needs) {
  if (needs.baseline_step_s <= 0 || needs.plan_step_s <= 0) return 0;
  const TrialTimes times(needs.worker_s);
  const double trials_s = times.trial_s(needs.baseline_step_s) + times.trial_s(needs.plan_step_s);
  const double series_s = times.series_s({needs.baseline_step_s, needs.plan_step_s}, kRoundsOfAnswer);
  return kTimeElsewhere * (needs.ready_s + trials_s + series_s);
}

AnswerNeeds needs_of_pass(int samples, double seconds, int batch, int devices, double worker_s) {
  const double step_s = seconds * std::max(1, batch) / std::max(1, samples);
  return {.ready_s = 2 * worker_s + kPassesOfTheLeast * seconds,
          .worker_s = worker_s,
          .baseline_step_s = step_s,
          .plan_step_s = step_s / std::max(1, devices)};
}

}  // namespace mptune::tuner
