#pragma once

#include <vector>

#include "tuner/trial/trial.h"

namespace mptune::tuner {

/// How long trials will take. What a worker costs beside the steps that it measures is learnt from the trials of a run.
class TrialTimes {
 public:
  static constexpr int kWarmUp = 1;  ///< steps of each plan that are not counted

  /// `worker_s`: what a worker costs as far as is known before the first trial.
  explicit TrialTimes(double worker_s = 0) : first_worker_s_(worker_s) {}

  /// Timed steps of a trial whose step is expected to take so long: about a second of them.
  [[nodiscard]] static int rounds_for(double step_s);
  /// After which a step that is expected to take so long counts as hanging [s].
  [[nodiscard]] static double step_limit_s(double step_s);

  /// A trial that took so long with all its steps and its worker [s]. Trials that were not measured say nothing.
  void note(const Trial& trial, double took_s);
  [[nodiscard]] int trials() const { return trials_; }  ///< noted and measured

  /// Expected [s], with the worker's start and warm-up: a trial, a series of plans with so many rounds, a recorded trace.
  [[nodiscard]] double trial_s(double step_s) const;
  /// Of a trial with one timed step, the least that measures a plan.
  [[nodiscard]] double least_trial_s(double step_s) const;
  [[nodiscard]] double series_s(const std::vector<double>& steps_s, int rounds) const;
  [[nodiscard]] double recording_s(double step_s) const;

 private:
  [[nodiscard]] double worker_s() const { return trials_ == 0 ? first_worker_s_ : worker_s_ / trials_; }

  double first_worker_s_;
  double worker_s_ = 0;  // of all trials, without their steps
  int trials_ = 0;
};

}  // namespace mptune::tuner
