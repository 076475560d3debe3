#pragma once

#include <functional>

#include "tuner/trial/setup.h"
#include "tuner/trial/trial.h"
#include "tuner/worker/host/worker_process.h"

namespace mptune::tuner {

/// Runs each series in a worker of its own. When a worker dies, the entry that was running gets the outcome, and the rest of the series
/// goes on in a new worker without it (the samples so far are kept, and rounds go on counting).
class LiveRunner : public TrialRunner {
 public:
  /// `on_step` is called for every timed step (for progress); may be empty. From Series::ends_s on no step and no worker begins. The
  /// running step may end; one that takes more than a second longer than the slowest plan's step is ended with its worker: its plan timed
  /// out if it is stuck (is_stuck) and is Interrupted, out of time, if it is slow. Plans with timed steps keep them, and have no peaks.
  LiveRunner(TrainingSetup setup, std::function<void(const Series&, const StepTimed&)> on_step, WaitOptions wait = {});
  [[nodiscard]] std::vector<Trial> run(const Series& series) override;

 private:
  TrainingSetup setup_;
  std::function<void(const Series&, const StepTimed&)> on_step_;
  WaitOptions wait_;
};

}  // namespace mptune::tuner
