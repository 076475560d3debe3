#include "tuner/study/trial_times.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tuner/study/recommend/finalists.h"

namespace mptune::tuner {
namespace {

constexpr double kTrialSeconds = 1;  // time of the timed steps, within the bounds of rounds
constexpr int kLeastRounds = 2;
constexpr int kMostRounds = 10;
constexpr std::size_t kLastTrials = 3;
constexpr int kRecordSteps = 12;  // warm-up, unrecorded and recorded steps
// Share of a worker's start that building the model of a plan takes; the rest is paid once, however many plans it runs.
constexpr double kBuildShare = 0.5;

}  // namespace

int TrialTimes::rounds_for(double step_s) {
  if (step_s <= 0) return kLeastRounds;
  return static_cast<int>(std::clamp(std::ceil(kTrialSeconds / step_s), double{kLeastRounds}, double{kMostRounds}));
}

double TrialTimes::step_limit_s(double step_s) {
  return std::max(30.0, 10 * step_s);
}

void TrialTimes::note(const Trial& trial, double took_s) {
  const auto step_s = measured_step(trial);
  if (!step_s) return;  // a plan that crashed or hung says nothing about start-up time
  const double steps = *step_s * (kWarmUp + static_cast<double>(std::get<Measured>(trial.outcome).step_s.size()));
  const double worker_s = std::max(0.0, took_s - steps);
  worker_s_ += worker_s;
  ++trials_;
  last_worker_s_.push_back(worker_s);
  if (last_worker_s_.size() > kLastTrials) last_worker_s_.pop_front();
}

double TrialTimes::worker_s() const {
  if (trials_ == 0) return first_worker_s_;
  const double last_s = std::accumulate(last_worker_s_.begin(), last_worker_s_.end(), 0.0);
  return std::max(worker_s_ / trials_, last_s / static_cast<double>(last_worker_s_.size()));
}

double TrialTimes::trial_s(double step_s) const {
  return worker_s() + step_s * (kWarmUp + rounds_for(step_s));
}

double TrialTimes::least_trial_s(double step_s) const {
  return worker_s() + step_s * (kWarmUp + 1);
}

double TrialTimes::series_s(const std::vector<double>& steps_s, int rounds) const {
  const double round_s = std::accumulate(steps_s.begin(), steps_s.end(), 0.0);
  const double further_builds = steps_s.empty() ? 0 : static_cast<double>(steps_s.size()) - 1;
  return worker_s() * (1 + kBuildShare * further_builds) + round_s * (kWarmUp + rounds);
}

double TrialTimes::recording_s(double step_s) const {
  return worker_s() + kRecordSteps * step_s;
}

}  // namespace mptune::tuner
