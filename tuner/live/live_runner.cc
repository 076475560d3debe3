#include "mptune/tuner/live/live_runner.h"

#include <algorithm>
#include <utility>

#include "mptune/planner/plan_file.h"
#include "mptune/profiler/base/error.h"

namespace mptune {
namespace {

// Loading LibTorch, building the model and its data come before the first step.
constexpr double kStartSeconds = 60;
// Between two steps the worker only bookkeeps; what it needs beyond its own limit of a step.
constexpr double kGraceSeconds = 5;

/// One series across all the workers it takes.
class SeriesRun {
 public:
  SeriesRun(const TrainingSetup& setup, const Series& series, const std::function<void(const Series&, const StepTimed&)>& on_step)
      : setup_(setup), series_(series), on_step_(on_step), finished_(series.entries.size(), false), samples_(series.entries.size()) {
    for (const Series::Entry& entry : series.entries) {
      Trial& trial = trials_.emplace_back();
      trial.name = entry.name;
      trial.plan = entry.plan;
      trial.plan_key = plan_key(entry.plan);
      trial.prediction = entry.prediction;
    }
  }

  std::vector<Trial> run() {
    while (!active().empty() && !stopped_) run_worker();
    return std::move(trials_);
  }

 private:
  [[nodiscard]] std::vector<int> active() const {
    std::vector<int> entries;
    for (int i = 0; i < static_cast<int>(finished_.size()); ++i) {
      if (!finished_[static_cast<std::size_t>(i)]) entries.push_back(i);
    }
    return entries;
  }

  /// One worker takes what is unfinished, and is watched until it ends.
  void run_worker() {
    const std::vector<int> entries = active();
    first_round_ = rounds_done_;
    Series rest = series_;
    rest.entries.clear();
    for (const int entry : entries) rest.entries.push_back(series_.entries[static_cast<std::size_t>(entry)]);
    rest.rounds = std::max(1, series_.rounds - rounds_done_);
    running_ = 0;
    warming_ = 0;
    timing_ = false;
    WorkerProcess worker(find_worker(), SeriesRequest{setup_, rest, started_s_});
    while (true) {
      const auto next = worker.next(patience(entries), interrupt_flag());
      if (const auto* end = std::get_if<WorkerEnd>(&next)) return blame(*end, entries);
      const Reply& reply = std::get<Reply>(next);
      if (std::holds_alternative<Done>(reply)) return give_up(entries);
      if (const auto* failed = std::get_if<Failed>(&reply)) {
        throw Error(failed->what, failed->where, failed->remedy, static_cast<ExitCode>(failed->exit_code));
      }
      if (const auto* step = std::get_if<StepTimed>(&reply)) take(*step, entries);
      if (const auto* done = std::get_if<EntryFinished>(&reply)) take(*done, entries);
    }
  }

  /// A worker that reports its warm-up steps is watched step by step from the first on; of others all warm-up is waited for at once.
  [[nodiscard]] double patience(const std::vector<int>& entries) const {
    if (timing_) return series_.step_limit_s + kGraceSeconds;
    const double warm_ups = static_cast<double>(entries.size()) * std::max(1, series_.warm_up);
    return kStartSeconds + series_.step_limit_s * warm_ups;
  }

  [[nodiscard]] static int original(const std::vector<int>& entries, int entry) {
    if (entry < 0 || entry >= static_cast<int>(entries.size())) {
      throw Error("mptune-worker answered for a plan that it was not asked for", "entry " + std::to_string(entry),
                  "make sure that both programs are of the same build", ExitCode::internal);
    }
    return entries[static_cast<std::size_t>(entry)];
  }

  void take(const StepTimed& step, const std::vector<int>& entries) {
    const auto entry = static_cast<std::size_t>(original(entries, step.entry));
    timing_ = true;
    if (step.round < 0) return warm(step, entries);
    StepTimed shifted = step;
    shifted.entry = static_cast<int>(entry);
    shifted.round += first_round_;
    samples_[entry].values.push_back({shifted.step_s, shifted.round, shifted.position, shifted.started_s});
    rounds_done_ = std::max(rounds_done_, shifted.round);
    running_ = after(step.entry, step.round, entries);
    if (on_step_) on_step_(series_, shifted);
  }

  void warm(const StepTimed& step, const std::vector<int>& entries) {
    warming_ = step.entry == running_ ? warming_ + 1 : 1;
    running_ = step.entry;
    if (warming_ < series_.warm_up) return;
    const int count = static_cast<int>(entries.size());
    running_ = next_unfinished(step.entry, 1, entries).value_or(next_unfinished(-1, 1, entries).value_or(count - 1));
    warming_ = 0;
  }

  [[nodiscard]] std::optional<int> next_unfinished(int from, int direction, const std::vector<int>& entries) const {
    const int count = static_cast<int>(entries.size());
    for (int i = from + direction; i >= 0 && i < count; i += direction) {
      if (!finished_[static_cast<std::size_t>(entries[static_cast<std::size_t>(i)])]) return i;
    }
    return std::nullopt;
  }

  /// ABBA: even rounds go up, odd ones down, so the turn runs the same plan twice.
  [[nodiscard]] int after(int entry, int round, const std::vector<int>& entries) const {
    const int direction = round % 2 == 0 ? 1 : -1;
    if (const auto next = next_unfinished(entry, direction, entries)) return *next;
    const int behind = direction > 0 ? static_cast<int>(entries.size()) : -1;
    return next_unfinished(behind, -direction, entries).value_or(entry);
  }

  void take(const EntryFinished& done, const std::vector<int>& entries) {
    const auto entry = static_cast<std::size_t>(original(entries, done.entry));
    finished_[entry] = true;
    trials_[entry].outcome = done.outcome;
    if (auto* measured = std::get_if<Measured>(&trials_[entry].outcome)) {
      // What was seen step by step includes the rounds of workers before this one.
      if (!samples_[entry].empty()) measured->step_s = samples_[entry];
    }
    if (done.entry == running_) running_ = next_unfinished(done.entry, 1, entries).value_or(next_unfinished(-1, 1, entries).value_or(0));
  }

  void blame(const WorkerEnd& end, const std::vector<int>& entries) {
    if (end.interrupted) {
      stopped_ = true;
      return;
    }
    int culprit = running_;
    if (finished_[static_cast<std::size_t>(original(entries, culprit))]) culprit = next_unfinished(-1, 1, entries).value_or(culprit);
    const auto entry = static_cast<std::size_t>(original(entries, culprit));
    // All plans may be done while the worker fails to end: then there is nobody to blame.
    if (finished_[entry]) return;
    finished_[entry] = true;
    if (end.timed_out) {
      trials_[entry].outcome = TimedOut{series_.step_limit_s};
    } else {
      trials_[entry].outcome = Crashed{end.signal, end.exit_code};
    }
    // The round that was cut short is taken again by those that are left.
    for (const int other : entries) drop_round(samples_[static_cast<std::size_t>(other)]);
  }

  void drop_round(Samples& samples) const {
    std::erase_if(samples.values, [&](const Sample& sample) { return sample.round >= rounds_done_; });
  }

  /// The worker says it is done but has left plans without an outcome.
  void give_up(const std::vector<int>& entries) {
    for (const int entry : entries) {
      if (finished_[static_cast<std::size_t>(entry)]) continue;
      throw Error("mptune-worker left a plan without an outcome", "entry " + std::to_string(entry),
                  "make sure that both programs are of the same build", ExitCode::internal);
    }
  }

  const TrainingSetup& setup_;
  const Series& series_;
  const std::function<void(const Series&, const StepTimed&)>& on_step_;
  double started_s_ = monotonic_seconds();
  std::vector<Trial> trials_;
  std::vector<bool> finished_;
  std::vector<Samples> samples_;
  int rounds_done_ = 0;  // number of the round that is running, over all workers
  int first_round_ = 0;  // of the running worker
  int running_ = 0;      // entry of the running worker that is on its next step
  int warming_ = 0;
  bool timing_ = false;
  bool stopped_ = false;
};

}  // namespace

LiveRunner::LiveRunner(TrainingSetup setup, std::function<void(const Series&, const StepTimed&)> on_step)
    : setup_(std::move(setup)), on_step_(std::move(on_step)) {}

std::vector<Trial> LiveRunner::run(const Series& series) {
  return SeriesRun(setup_, series, on_step_).run();
}

}  // namespace mptune
