#pragma once

#include <string>
#include <variant>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/plan/plan.h"
#include "planner/simulate/simulate.h"
#include "profiler/trace/values/trace.h"

namespace mptune::planner {

/// A cause of idle time that a recording names. It is the member of IdleCauses of the same name.
enum class IdleCause { host, copy_wait, sync, structural, imbalance, straggler, jitter, profiler, unexplained };

[[nodiscard]] const char* to_string(IdleCause cause);

// These remedies would make a step shorter. The first ones are for a recording, replayed:
struct EvenStage {
  int stage = 0;  ///< as long as the mean of the stages
  bool operator==(const EvenStage&) const = default;
};
struct EvenDevice {
  std::string device;  ///< as fast as the others of its stage
  bool operator==(const EvenDevice&) const = default;
};
struct InstantCopies {
  std::string source;
  std::string destination;
  bool operator==(const InstantCopies&) const = default;
};
struct EvenSteps {  ///< every step is like the median one
  bool operator==(const EvenSteps&) const = default;
};
struct PromptHosts {  ///< no device waits for its host
  bool operator==(const PromptHosts&) const = default;
};
// The next ones are for a plan, simulated:
struct MoveLayer {
  std::string layer;
  int to_stage = 0;
  std::vector<int> cuts{};  ///< first layers of the later stages, once it is moved
  bool operator==(const MoveLayer&) const = default;
};
struct OtherMicrobatches {
  int count = 0;
  int now = 0;
  bool operator==(const OtherMicrobatches&) const = default;
};
struct SaveActivations {  ///< recomputes nothing; memory allows it
  bool operator==(const SaveActivations&) const = default;
};
struct FasterLinks {  ///< twice the bandwidth
  bool operator==(const FasterLinks&) const = default;
};
using Remedy =
    std::variant<EvenStage, EvenDevice, InstantCopies, EvenSteps, PromptHosts, MoveLayer, OtherMicrobatches, SaveActivations, FasterLinks>;

/// A remedy with its worth. reports/render/advice_text.h words it.
struct Advice {
  IdleCause cause = IdleCause::unexplained;  ///< the cause that it cures
  std::string device{};                      ///< the device it concerns; "" where it is no single one
  int stage = -1;                            ///< the stage it concerns; -1 where it is no single one
  double saves_s = 0;                        ///< seconds of the mean step, or of the predicted one, > 0
  double saves_percent = 0;                  ///< share of that step
  Remedy remedy{};
  bool operator==(const Advice&) const = default;
};

/// Returns what a recording alone tells, largest first. Each trouble is taken away by a replay of all its steps with other durations: a
/// stage as long as the mean of the stages (imbalance), a device as fast as the others of its stage (straggler), a link that takes no time
/// (copy wait), every step like the median one (jitter), hosts that are never late (host). Troubles worth less than 0.5 % are left out.
/// Empty for a trace without stages. Requires: as break_down.
[[nodiscard]] std::vector<Advice> advise(const Trace& trace);

/// Returns what a plan could be changed to, simulated, largest first: a layer moved over a cut, other numbers of micro-batches, no
/// recomputation where memory allows it, links twice as fast. Only the best change of each kind that saves at least 0.5 % is listed.
/// Requires: a valid plan of one of the named schedules; other schedules give advice on links and recomputation only.
[[nodiscard]] std::vector<Advice> advise(const Plan& plan, const CostModel& cost);

/// Returns the share of all devices' time that `plan`'s schedule idles with equal stages, free copies and no fixed costs, 0 to 1. For m
/// micro-batches on K stages it is (K - 1) / (m + K - 1) with gpipe or 1f1b, and (K - 1) / (3 m + K - 1) with zb2p and enough
/// micro-batches. It is found by simulation, so any valid schedule has one. (GPipe, arXiv 1811.06965; zero bubble, arXiv 2401.10241.)
[[nodiscard]] double theoretical_bubble(const Plan& plan);

/// Returns the plan's schedule alone: a step with equal stages, free copies and no fixed costs, in which gradients of inputs and of weights
/// each take as long as a forward. The step takes `step_s`; with 0 a sample's forward through a stage takes a millisecond. Any valid
/// schedule has one.
[[nodiscard]] Simulation simulate_schedule(const Plan& plan, double step_s = 0);

}  // namespace mptune::planner
