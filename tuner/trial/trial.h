#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "planner/plan/plan.h"
#include "planner/simulate/simulate.h"
#include "profiler/trace/statistics/samples.h"
#include "tuner/trial/disturbance.h"

namespace mptune::tuner {

struct Measured {
  Samples step_s;                        ///< whole steps, warm-up excluded; rounds and positions of the series
  std::vector<std::int64_t> peak_bytes;  ///< per device of the plan
  double loss = 0;                       ///< of the last step
  Noise noise = {};                      ///< what disturbed the series
  bool operator==(const Measured&) const = default;
};
struct OutOfMemory {
  std::string device;
  std::int64_t requested_bytes = 0;
  std::int64_t cap_bytes = 0;
  bool operator==(const OutOfMemory&) const = default;
};
struct TimedOut {
  double limit_s = 0;
  std::string doing = {};  ///< what did not end: "the forward of layer 'conv1'"; "" where not known
  bool operator==(const TimedOut&) const = default;
};
struct Crashed {
  int signal = 0;  ///< 0: exited
  int exit_code = 0;
  std::string doing = {};  ///< what ran at that moment, as in TimedOut
  bool operator==(const Crashed&) const = default;
};
struct WrongResult {
  std::string reason;
  bool operator==(const WrongResult&) const = default;
};
struct NonFinite {
  bool operator==(const NonFinite&) const = default;
};
struct Infeasible {
  std::string reason;
  bool operator==(const Infeasible&) const = default;
};
struct Interrupted {
  bool out_of_time = false;  ///< interrupted by the end of the budget, not by the user; neither is ever stored
  bool operator==(const Interrupted&) const = default;
};
struct Environment {
  std::string reason;
  bool operator==(const Environment&) const = default;
};

/// How a trial ended. A candidate that fails is a value, never an exception.
using Outcome = std::variant<Measured, OutOfMemory, TimedOut, Crashed, WrongResult, NonFinite, Infeasible, Interrupted, Environment>;

/// The names of Outcome's alternatives in their order, as used in studies, messages and JSON.
inline constexpr std::array kOutcomeNames = {"measured",   "out_of_memory", "timed_out",   "crashed",    "wrong_result",
                                             "non_finite", "infeasible",    "interrupted", "environment"};
static_assert(kOutcomeNames.size() == std::variant_size_v<Outcome>);

/// Returns true if another program, or the kernel for lack of memory, killed the worker.
[[nodiscard]] bool was_killed(const Outcome& outcome);
/// Returns one of kOutcomeNames.
[[nodiscard]] std::string outcome_class(const Outcome& outcome);
/// Returns the alternative of this name with default values; empty where there is none.
[[nodiscard]] std::optional<Outcome> outcome_named(const std::string& name);
/// Describes the outcome for people in one clause: "out of memory on cpu:1: 120 MiB asked with a cap of 1.00 GiB".
[[nodiscard]] std::string outcome_text(const Outcome& outcome);

/// One plan, tried once within one series.
struct Trial {
  int id = -1;       ///< number in its study
  int series = -1;   ///< number of the series in its study: only samples of one series are paired
  std::string name;  ///< name of the baseline or "candidate"
  std::string plan_key;
  Plan plan;
  std::optional<Prediction> prediction;
  Outcome outcome = Interrupted{};
};

/// Returns the peak bytes per device of a measured trial; for sleeping devices, whose layers hold nothing, the predicted ones. Empty unless
/// the trial was measured.
[[nodiscard]] std::vector<std::int64_t> peak_bytes_of(const Trial& trial);

/// Plans that are tried together, their steps interleaved by entry_at.
struct Series {
  struct Entry {
    std::string name;
    Plan plan;
    std::optional<Prediction> prediction;
    int importance = 0;  ///< where time is short, plans of less importance are left out first
  };
  std::vector<Entry> entries;
  int warm_up = 1;           ///< steps of each plan that are not counted
  int rounds = 3;            ///< the most rounds, not counting disturbed ones; see rounds_wanted
  int least_rounds = 0;      ///< undisturbed rounds after which plans that are slower for sure leave (SeriesRounds); 0: none leaves
  double budget_s = 60;      ///< time for all of it: start-up, warm-up and rounds; see round_fits
  double step_limit_s = 60;  ///< a step that takes longer ends its plan as TimedOut
  /// No step begins once this many seconds have passed since the start. Plans without a timed step are then Interrupted, out of time.
  double ends_s = std::numeric_limits<double>::infinity();
};

/// Returns which of `count` entries runs at a position of a round: even rounds run all in order, odd ones in reverse (ABBA).
[[nodiscard]] int entry_at(int round, int position, int count);

/// Returns the number of rounds to run where `disturbed` rounds so far were disturbed. Each of these is repeated, but at most twice as many
/// rounds are run as were asked for.
[[nodiscard]] int rounds_wanted(const Series& series, int disturbed);

/// Returns whether a round may begin `now_s` seconds after the start of its series. The first round always may, so that every plan has a
/// sample. A later one may if it would end within the budget even if it took as long as the longest round so far.
[[nodiscard]] bool round_fits(const Series& series, int round, double now_s, double longest_round_s, int disturbed = 0);

/// Runs a series and returns one Trial per entry, in the order of the entries and without ids. Entries that an interrupt or the end of the
/// budget cut short are Interrupted. Never throws for a failing candidate; throws Error for a broken machine.
class TrialRunner {
 public:
  virtual ~TrialRunner() = default;
  [[nodiscard]] virtual std::vector<Trial> run(const Series& series) = 0;
};

}  // namespace mptune::tuner
