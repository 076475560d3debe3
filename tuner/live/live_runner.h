#pragma once

#include <functional>

#include "tuner/live/worker_process.h"
#include "tuner/trial/setup.h"
#include "tuner/trial/trial.h"

namespace mptune::tuner {

/// Runs each series in a worker of its own. When a worker dies, the entry that was running gets the outcome, and the rest of the series
/// goes on in a new worker without it (their samples so far are kept, rounds go on counting).
class LiveRunner : public TrialRunner {
 public:
  /// `on_step` is called for every timed step (for progress); may be empty. Once the time of `wait` is over, no new worker begins: plans
  /// with steps keep them (and have no peaks), the others fail.
  LiveRunner(TrainingSetup setup, std::function<void(const Series&, const StepTimed&)> on_step, WaitOptions wait = {});
  [[nodiscard]] std::vector<Trial> run(const Series& series) override;

 private:
  TrainingSetup setup_;
  std::function<void(const Series&, const StepTimed&)> on_step_;
  WaitOptions wait_;
};

}  // namespace mptune::tuner
