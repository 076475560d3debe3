#pragma once

#include <string>
#include <vector>

#include "tuner/worker/messages.h"

namespace CLI {
class App;
}

namespace mptune::reports {

/// What `run` takes besides a model, a plan and a step: how long it trains, on which samples, and what is read and written.
struct TrainingOptions {
  std::string steps, epochs, validation, rate_schedule, clip_norm, load, save, checkpoint, checkpoint_step, every, csv;
  bool skip_non_finite = false;
  bool drop_last = false;
};

void add_training_options(CLI::App& app, TrainingOptions& options);
/// Returns a request without setup and plan. `inputs` are files that the command reads, which no output may replace. Throws Error where an
/// option does not fit, or a file can't be read or written.
[[nodiscard]] tuner::TrainRequest training_request(const TrainingOptions& options, std::vector<std::string> inputs);

}  // namespace mptune::reports
