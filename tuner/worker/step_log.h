#pragma once

#include <fstream>
#include <optional>
#include <string>

#include "tuner/worker/messages.h"

namespace mptune::tuner {

/// A CSV file with a row per training step. A row is with the kernel when add() returns: a reader may follow the file, and a training that
/// adds a step before it writes the step's checkpoint loses no row that a checkpoint counts, however it ends. A training that is resumed
/// keeps the rows of the steps before it. Throws Error where it can't be written.
class StepLog {
 public:
  /// The first bytes of a step log.
  static constexpr const char* kMagic = "step,epoch,";
  /// `path`: "" writes nothing.
  explicit StepLog(std::string path) : path_(std::move(path)) {}

  /// Adds the row of a step. `epoch`: the epoch that ends with the step.
  void add(const Trained& step, const std::optional<EpochFinished>& epoch);

 private:
  void begin(int first_step);

  std::string path_;
  std::ofstream file_;
};

}  // namespace mptune::tuner
