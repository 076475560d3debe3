#pragma once

#include <fstream>
#include <optional>
#include <string>

#include "tuner/live/messages.h"

namespace mptune::reports {

/// A CSV file with a row per training step, written as the steps end: a reader may follow it. A training that is resumed keeps the rows of
/// the steps before it. Throws Error where it can't be written.
class StepLog {
 public:
  /// First bytes of such a file.
  static constexpr const char* kMagic = "step,epoch,";
  /// `path`: "" writes nothing.
  explicit StepLog(std::string path) : path_(std::move(path)) {}

  void add(const tuner::Trained& step);
  /// Belongs to the step before.
  void add(const tuner::EpochFinished& epoch);
  /// Writes the last row.
  void finish();

 private:
  void begin(int first_step);
  void write(const std::string& text);

  std::string path_;
  std::ofstream file_;
  std::optional<tuner::Trained> step_;  ///< whose row is not written yet
  tuner::EpochFinished epoch_;          ///< of that step
};

}  // namespace mptune::reports
