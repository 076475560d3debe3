#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "tuner/worker/program/requests.h"

namespace mptune::testing {

/// What a recorder saw of GPUs, over all recorded steps.
struct Seen {
  std::int64_t kernels = 0;
  std::int64_t untagged = 0;  ///< kernels and copies; of mptune's recorder alone
  std::int64_t events = 0;    ///< kernels, copies, memsets
  std::int64_t dropped = 0;   ///< records that are missing or have no times; of mptune's recorder alone
  double busy_s = 0;          ///< in which at least one of the events ran
  std::array<char, 512> refusal{};
};

/// Records steps on the thread that runs them; this one records nothing.
class Recorder {
 public:
  virtual ~Recorder() = default;
  virtual void start(tuner::TrainingRun&) {}
  [[nodiscard]] virtual double step(tuner::TrainingRun& run) { return run.step().seconds; }
  [[nodiscard]] virtual Seen stop() { return {}; }
};

/// A way to record. One a process: CUPTI serves one recorder and stays with it.
struct RecorderChoice {
  const char* name;
  std::unique_ptr<Recorder> (*make)(const Pipeline& pipeline);
};
/// Indices of kAllChoices.
enum { kNone, kOurs, kKineto, kKinetoGpuOnly, kChoices };
extern const std::array<RecorderChoice, kChoices> kAllChoices;

}  // namespace mptune::testing
