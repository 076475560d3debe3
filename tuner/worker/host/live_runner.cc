#include "tuner/worker/host/live_runner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "planner/plan/file/plan_file.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/trace/statistics/samples.h"
#include "tuner/worker/host/interrupt.h"
#include "tuner/worker/host/worker_death.h"

namespace mptune::tuner {
namespace {

// Time before the first step, in which the worker loads LibTorch and builds the model and its data.
constexpr double kStartSeconds = 60;
// Time that the worker needs between two steps, beyond the limit of a step.
constexpr double kGraceSeconds = 5;
// Time that the worker may take at the end of the budget beyond the slowest plan's step.
constexpr double kGraceAtEnd = 1;

// How many undisturbed rounds are enough for an interval.
constexpr int kEnoughRounds = static_cast<int>(kLeastForInterval);

/// One series across all the workers that it takes.
class SeriesRun {
 public:
  SeriesRun(const TrainingSetup& setup, const Series& series, const std::function<void(const Series&, const StepTimed&)>& on_step,
            const WaitOptions& wait)
      : setup_(setup),
        series_(series),
        on_step_(on_step),
        wait_(wait),
        finished_(series.entries.size(), false),
        samples_(series.entries.size()) {
    for (const Series::Entry& entry : series.entries) {
      Trial& trial = trials_.emplace_back();
      trial.name = entry.name;
      trial.plan = entry.plan;
      trial.plan_key = plan_key(entry.plan);
      trial.prediction = entry.prediction;
    }
  }

  std::vector<Trial> run() {
    while (!active().empty() && !interrupted_ && !out_of_time_) {
      run_worker();
      out_of_time_ = monotonic_seconds() >= ends_s();
    }
    if (out_of_time_) keep_what_is_measured(active());
    leave_out_disturbed(trials_, disturbed_, std::min(series_.rounds, kEnoughRounds));
    return std::move(trials_);
  }

 private:
  [[nodiscard]] std::vector<int> active() const {
    std::vector<int> entries;
    for (int i = 0; i < static_cast<int>(finished_.size()); ++i)
      if (!finished_[as_index(i)]) entries.push_back(i);
    return entries;
  }

  /// Runs one worker for the unfinished entries until it ends.
  void run_worker() {
    const std::vector<int> entries = active();
    first_round_ = round_;
    Series rest = series_;
    rest.entries.clear();
    for (const int entry : entries) rest.entries.push_back(series_.entries[as_index(entry)]);
    rest.rounds = std::max(1, rounds_wanted(series_, disturbed_rounds()) - round_);
    running_.reset();
    timing_ = false;
    WaitOptions wait = wait_;
    if (std::isfinite(series_.ends_s)) wait.limits.ends_s = ends_s() + slowest_step_s() + kGraceAtEnd;
    WorkerProcess worker(find_worker(), SeriesRequest{setup_, rest, started_s_}, wait);
    while (true) {
      const auto next = worker.next(reply_limit_s(), interrupt_flag());
      if (const auto* end = std::get_if<WorkerEnd>(&next)) return attribute_failure(*end, entries);
      const Reply& reply = std::get<Reply>(next);
      if (std::holds_alternative<Done>(reply)) return require_all_finished(entries);
      if (const auto* failed = std::get_if<Failed>(&reply)) throw_failed(*failed);
      if (const auto* begun = std::get_if<StepStarted>(&reply)) take(*begun, entries);
      if (const auto* step = std::get_if<StepTimed>(&reply)) take(*step, entries);
      if (const auto* disturbed = std::get_if<RoundsDisturbed>(&reply)) take(*disturbed);
      if (const auto* done = std::get_if<EntryFinished>(&reply)) take(*done, entries);
      if (std::holds_alternative<RanksLost>(reply)) return drop_running_round(entries);
    }
  }

  [[nodiscard]] double reply_limit_s() const { return series_.step_limit_s + (timing_ ? kGraceSeconds : kStartSeconds); }

  /// Returns when the series ends, on the clock of monotonic_seconds().
  [[nodiscard]] double ends_s() const { return started_s_ + series_.ends_s; }

  /// Returns the longest step time of a plan, predicted or measured; 0 where nothing is known.
  [[nodiscard]] double step_s(std::size_t entry) const {
    double longest = series_.entries[entry].prediction ? series_.entries[entry].prediction->step_s : 0;
    for (const Sample& sample : samples_[entry].values) longest = std::max(longest, sample.value);
    return longest;
  }
  [[nodiscard]] double slowest_step_s() const {
    double slowest = 0;
    for (std::size_t entry = 0; entry < series_.entries.size(); ++entry) slowest = std::max(slowest, step_s(entry));
    return slowest;
  }

  [[nodiscard]] static int original(const std::vector<int>& entries, int entry) {
    if (entry < 0 || entry >= static_cast<int>(entries.size())) {
      throw Error("mptune-worker answered for a plan that it was not asked for", "entry " + std::to_string(entry),
                  "make sure that both programs are of the same build", ExitCode::internal);
    }
    return entries[as_index(entry)];
  }

  void take(const StepStarted& begun, const std::vector<int>& entries) {
    running_ = original(entries, begun.entry);
    timing_ = begun.round >= 0;
    if (timing_) round_ = first_round_ + begun.round;
  }

  void take(const StepTimed& step, const std::vector<int>& entries) {
    StepTimed shifted = step;
    shifted.entry = original(entries, step.entry);
    shifted.round += first_round_;
    samples_[as_index(shifted.entry)].values.push_back({shifted.step_s, shifted.round, shifted.position, shifted.started_s});
    if (on_step_) on_step_(series_, shifted);
  }

  void take(const RoundsDisturbed& disturbed) {
    DisturbedRounds rounds = disturbed.rounds;
    rounds.first += first_round_;
    rounds.last += first_round_;
    disturbed_.push_back(rounds);
  }

  [[nodiscard]] int disturbed_rounds() const {
    int count = 0;
    for (const DisturbedRounds& rounds : disturbed_) count += rounds.last - rounds.first + 1;
    return count;
  }

  void take(const EntryFinished& done, const std::vector<int>& entries) {
    const auto entry = as_index(original(entries, done.entry));
    finished_[entry] = true;
    trials_[entry].outcome = done.outcome;
    // A worker that is interrupted sends no reply, so an entry that the worker itself cut short had no more time.
    if (std::holds_alternative<Interrupted>(done.outcome)) keep_what_is_measured({static_cast<int>(entry)});
    if (auto* measured = std::get_if<Measured>(&trials_[entry].outcome)) {
      // samples_ also has the rounds of earlier workers; the reply has only this worker's.
      if (!samples_[entry].empty()) measured->step_s = samples_[entry];
    }
  }

  void attribute_failure(const WorkerEnd& end, const std::vector<int>& entries) {
    if (end.interrupted) {
      interrupted_ = true;
      return;
    }
    const std::vector<int> unfinished = active();
    // All plans may be done although the worker failed to end; then no plan failed.
    if (unfinished.empty()) return;
    const bool over = monotonic_seconds() >= ends_s();
    // Until its first step a worker loads LibTorch and the model, without a reply.
    const double silent_s = end.silence.seconds - (running_ ? 0 : kStartSeconds);
    if (end.silence.silence == Silence::out_of_time && !is_stuck(silent_s, running_ ? step_s(as_index(*running_)) : 0)) return;
    // If no step was running, the first unfinished plan fails: otherwise a new worker would start with the same plans for ever.
    const bool known = running_ && !finished_[as_index(*running_)];
    const auto entry = as_index(known ? *running_ : unfinished.front());
    finished_[entry] = true;
    trials_[entry].outcome = outcome_of(end);
    if (!over) drop_running_round(entries);
  }

  /// The remaining plans repeat the round that was cut short.
  void drop_running_round(const std::vector<int>& entries) {
    for (const int other : entries) drop_round(samples_[as_index(other)]);
  }

  [[nodiscard]] Outcome outcome_of(const WorkerEnd& end) const {
    const Silence silence = end.silence.silence;
    if (silence == Silence::stopped || silence == Silence::lifeless) return Environment{"mptune-worker " + silence_text(end.silence)};
    if (end.closed_pipe) return Environment{"mptune-worker closed its pipe and went on"};
    if (!end.timed_out) return Crashed{end.signal, end.exit_code, end.doing};
    if (silence == Silence::none) return TimedOut{series_.step_limit_s, end.doing};
    return TimedOut{end.silence.seconds, end.silence.doing.empty() ? end.doing : end.silence.doing};
  }

  void keep_what_is_measured(const std::vector<int>& entries) {
    for (const int entry : entries) {
      const Samples& samples = samples_[as_index(entry)];
      trials_[as_index(entry)].outcome = samples.empty() ? Outcome(Interrupted{.out_of_time = true}) : Measured{samples, {}, 0};
    }
  }

  void drop_round(Samples& samples) const {
    std::erase_if(samples.values, [&](const Sample& sample) { return sample.round >= round_; });
  }

  /// Throws if the worker says it is done but has left plans without an outcome.
  void require_all_finished(const std::vector<int>& entries) {
    for (const int entry : entries) {
      if (finished_[as_index(entry)]) continue;
      throw Error("mptune-worker left a plan without an outcome", "entry " + std::to_string(entry),
                  "make sure that both programs are of the same build", ExitCode::internal);
    }
  }

  const TrainingSetup& setup_;
  const Series& series_;
  const std::function<void(const Series&, const StepTimed&)>& on_step_;
  const WaitOptions& wait_;
  double started_s_ = monotonic_seconds();
  std::vector<Trial> trials_;
  std::vector<bool> finished_;
  std::vector<Samples> samples_;
  std::vector<DisturbedRounds> disturbed_;
  int round_ = 0;               // the running round, over all workers
  int first_round_ = 0;         // first round of the running worker
  std::optional<int> running_;  // entry whose step was announced last
  bool timing_ = false;         // that step is a timed one
  bool interrupted_ = false;
  bool out_of_time_ = false;
};

}  // namespace

LiveRunner::LiveRunner(TrainingSetup setup, std::function<void(const Series&, const StepTimed&)> on_step, WaitOptions wait)
    : setup_(std::move(setup)), on_step_(std::move(on_step)), wait_(std::move(wait)) {}

std::vector<Trial> LiveRunner::run(const Series& series) {
  return SeriesRun(setup_, series, on_step_, wait_).run();
}

}  // namespace mptune::tuner
