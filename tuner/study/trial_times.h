#pragma once

#include <deque>
#include <vector>

#include "tuner/trial/trial.h"

namespace mptune::tuner {

/// Predicts how long trials will take. What a worker costs besides the steps that it measures is learnt from the trials of a run.
class TrialTimes {
 public:
  static constexpr int kWarmUp = 1;  ///< steps of each plan that are not counted

  /// `worker_s`: what a worker costs as far as is known before the first trial.
  explicit TrialTimes(double worker_s = 0) : first_worker_s_(worker_s) {}

  /// Returns the number of timed steps of a trial whose step is expected to take `step_s`: about a second of them.
  [[nodiscard]] static int rounds_for(double step_s);
  /// Returns the time after which a step that is expected to take `step_s` counts as hanging [s].
  [[nodiscard]] static double step_limit_s(double step_s);

  /// Learns from a trial that took `took_s` with all its steps and its worker [s]. Trials that were not measured say nothing.
  void note(const Trial& trial, double took_s);
  [[nodiscard]] int trials() const { return trials_; }  ///< trials that were noted and measured

  /// Return the expected time [s], with the worker's start and warm-up, of a trial, of a series of plans with `rounds` rounds, and of a
  /// recorded trace.
  [[nodiscard]] double trial_s(double step_s) const;
  /// Returns the time of a trial with one timed step, the least that measures a plan.
  [[nodiscard]] double least_trial_s(double step_s) const;
  [[nodiscard]] double series_s(const std::vector<double>& steps_s, int rounds) const;
  [[nodiscard]] double recording_s(double step_s) const;

 private:
  /// Returns the mean of all trials, or of the last three where these took longer: other programs may have begun to use the machine.
  [[nodiscard]] double worker_s() const;

  double first_worker_s_;
  double worker_s_ = 0;  // time of all trials, without their steps
  std::deque<double> last_worker_s_;
  int trials_ = 0;
};

}  // namespace mptune::tuner
