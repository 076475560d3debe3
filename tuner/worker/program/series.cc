#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/library_message.h"
#include "profiler/model/layers/autocast_scope.h"
#include "tuner/check/check_operation.h"
#include "tuner/trial/series_rounds.h"
#include "tuner/worker/program/ranks.h"
#include "tuner/worker/program/requests.h"
#include "tuner/worker/program/round_watch.h"
#include "tuner/worker/program/series_ranks.h"

namespace mptune::tuner {

namespace {

/// One plan of a series, from its construction to its outcome.
class Contender {
 public:
  Contender(const TrainingSetup& setup, const Plan& plan, int entry, SeriesRanks& ranks)
      : setup_(setup), plan_(plan), entry_(entry), ranks_(ranks) {}

  /// Runs a step. Empty when the plan failed; its outcome then says why.
  std::optional<StepResult> step() {
    std::optional<StepResult> result;
    ranks_.tell(SeriesWork::step, entry_);
    attempt([&] {
      const TrainingRun::Step taken = run_->step();
      skipped_ = taken.skipped;
      result = taken;
    });
    if (result && !std::isfinite(result->loss)) {
      outcome_ = NonFinite{};
      result.reset();
    }
    if (result) measured_.loss = result->loss;
    if (!result) drop();
    return result;
  }

  void build(const Batch& batch) {
    built_ = true;
    ranks_.tell(SeriesWork::build, entry_);
    attempt([&] {
      Model model = model_of(setup_).model;
      has_batch_statistics_ = false;
      for (const ModelLayer& layer : model.layers()) has_batch_statistics_ = has_batch_statistics_ || layer.layer->has_batch_statistics();
      own_ranks_ = ranks_for_part(setup_, entry_);
      devices_ = devices_of(plan_, own_ranks_.get());
      run_ = std::make_unique<TrainingRun>(setup_, std::move(model), plan_, batch, devices_, own_ranks_);
    });
  }

  /// Compares the first loss with that of another plan. Without batch norm a plan changes only the rounding of the first loss.
  void check_against(double loss) {
    constexpr double kRounding = 1e-4;
    const double allowed = std::max(kRounding, 8 * epsilon_of(profiler::computed_type(plan_.options.precision)));
    if (has_batch_statistics_ || std::abs(measured_.loss - loss) <= allowed * std::max(1.0, std::abs(loss))) return;
    outcome_ = WrongResult{"first loss " + std::to_string(measured_.loss) + " instead of " + std::to_string(loss)};
    drop_on_all_ranks();
  }

  void add(const Sample& sample) { measured_.step_s.values.push_back(sample); }
  /// Returns whether the last step left the optimizers out, as fp16 overflowed.
  [[nodiscard]] bool skipped() const { return skipped_; }
  [[nodiscard]] bool alive() const { return run_ != nullptr; }
  [[nodiscard]] double loss() const { return measured_.loss; }

  [[nodiscard]] Outcome finish() {
    if (!run_) return outcome_;
    ranks_.tell(SeriesWork::finish, entry_);
    measured_.peak_bytes = peaks_of(run_->pipeline());
    return measured_;
  }

  /// Drops the plan on all ranks; called on rank 0.
  void drop_on_all_ranks() {
    ranks_.tell(SeriesWork::drop, entry_);
    drop();
  }

  /// Returns, at the end of a series, the outcome that was not reported before. Empty for a plan that failed or left.
  [[nodiscard]] std::optional<Outcome> conclude() {
    if (!built_) return Interrupted{.out_of_time = true};
    if (!run_) return std::nullopt;
    if (!measured_.step_s.empty()) return finish();
    drop_on_all_ranks();
    return Interrupted{.out_of_time = true};
  }

  /// Frees the memory of a failed plan while the others run on.
  void drop() {
    run_.reset();
    devices_.clear();
    own_ranks_.reset();
  }

 private:
  /// Runs `work` for the plan. An Error of the machine or the user is rethrown on all ranks.
  void attempt(const std::function<void()>& work) {
    const SeriesRanks::End end = ranks_.agree(end_of(work));
    if (const auto* error = std::get_if<std::exception_ptr>(&end)) std::rethrow_exception(*error);
    if (const auto* outcome = std::get_if<Outcome>(&end)) {
      outcome_ = *outcome;
      drop();
    }
  }

  /// The one place where an exception of a plan becomes an outcome.
  SeriesRanks::End end_of(const std::function<void()>& work) {
    try {
      for_ranks(own_ranks_, work);
    } catch (const c10::OutOfMemoryError&) {
      return Outcome(out_of_memory_on(devices_, setup_));
    } catch (const c10::AcceleratorError&) {
      return std::current_exception();
    } catch (const c10::Error& error) {
      return Outcome(Infeasible{library_message(error.what_without_backtrace())});
    } catch (const Error&) {
      return std::current_exception();
    } catch (const RanksGivenUp&) {
      return std::current_exception();
    } catch (const std::exception& error) {
      return Outcome(Infeasible{error.what()});
    }
    return {};
  }

  TrainingSetup setup_;
  Plan plan_;
  int entry_;
  SeriesRanks& ranks_;
  std::shared_ptr<RankGroup> own_ranks_;          ///< this plan's own group: it may fail while others run on
  std::vector<std::shared_ptr<Device>> devices_;  ///< known before the run exists: building it may fail
  std::unique_ptr<TrainingRun> run_;
  bool built_ = false;  ///< true also if building it failed
  bool has_batch_statistics_ = false;
  bool skipped_ = false;
  Measured measured_;
  Outcome outcome_ = Infeasible{"not run"};
};

/// How often the first loss scale of fp16 can be halved before it is 1.
constexpr int kMostSkipped = 16;

/// The time since the series began, over all its workers.
struct SeriesClock {
  const SeriesRequest& request;

  [[nodiscard]] double elapsed() const { return monotonic_seconds() - request.started_s; }
  [[nodiscard]] bool out_of_time() const { return elapsed() >= request.series.ends_s; }
};

/// Builds every plan and runs its warm-up steps, and more steps until the optimizers step, too. The first losses of all plans must agree.
void warm_up(std::vector<Contender>& contenders, const Series& series, const Batch& batch, const SeriesClock& clock, const Replies& reply) {
  std::optional<double> first_loss;
  for (int i = 0; i < static_cast<int>(contenders.size()) && !clock.out_of_time(); ++i) {
    Contender& contender = contenders[as_index(i)];
    reply(StepStarted{i, -1});
    contender.build(batch);
    const int steps = std::max(1, series.warm_up);
    const auto wants_more = [&](int done) { return done < steps || (contender.skipped() && done < steps + kMostSkipped); };
    for (int w = 0; wants_more(w) && contender.alive() && !clock.out_of_time(); ++w) {
      reply(StepStarted{i, -1});
      if (!contender.step() || w > 0) continue;
      if (first_loss) contender.check_against(*first_loss);
      if (contender.alive() && !first_loss) first_loss = contender.loss();
    }
    if (!contender.alive()) reply(EntryFinished{i, contender.finish()});
  }
}

/// Runs one step of every plan that takes part, as long as there is time.
void run_round(std::vector<Contender>& contenders, int round, SeriesRounds& rounds, const SeriesClock& clock, const Replies& reply) {
  const int count = static_cast<int>(contenders.size());
  for (int position = 0; position < count && !clock.out_of_time(); ++position) {
    const int i = entry_at(round, position, count);
    if (!rounds.takes_part(i)) continue;
    Contender& contender = contenders[as_index(i)];
    reply(StepStarted{i, round});
    const double started = clock.elapsed();
    if (const auto result = contender.step()) {
      const Sample sample{result->seconds, round, position, started};
      contender.add(sample);
      rounds.add(i, sample);
      reply(StepTimed{i, round, position, started, result->seconds});
    } else {
      rounds.leave(i);
      reply(EntryFinished{i, contender.finish()});
    }
  }
}

/// Runs warm-up and rounds, on rank 0.
void lead_series(const SeriesRequest& request, std::vector<Contender>& contenders, const Batch& batch, const Replies& reply) {
  const Series& series = request.series;
  const SeriesClock clock{request};
  warm_up(contenders, series, batch, clock, reply);
  RoundWatch watch(cores_of(series));
  SeriesRounds rounds(series);
  for (int i = 0; i < static_cast<int>(contenders.size()); ++i)
    if (!contenders[as_index(i)].alive()) rounds.leave(i);
  int disturbed = 0;
  for (int round = 0; rounds.next_fits(clock.elapsed(), disturbed) && !clock.out_of_time(); ++round) {
    const double began = clock.elapsed();
    run_round(contenders, round, rounds, clock, reply);
    const double took = clock.elapsed() - began;
    if (const auto noisy = watch.after_round(round)) {
      disturbed += noisy->last - noisy->first + 1;
      reply(RoundsDisturbed{*noisy});
    }
    for (const int i : rounds.end_round(clock.elapsed(), took, disturbed)) {
      reply(EntryFinished{i, contenders[as_index(i)].finish()});
      contenders[as_index(i)].drop_on_all_ranks();
    }
  }
  for (int i = 0; i < static_cast<int>(contenders.size()); ++i)
    if (const std::optional<Outcome> outcome = contenders[as_index(i)].conclude()) reply(EntryFinished{i, *outcome});
}

/// Does on other ranks what rank 0 does.
void follow_series(SeriesRanks& ranks, std::vector<Contender>& contenders, const Batch& batch) {
  while (true) {
    const auto [work, entry] = ranks.told();
    if (work == SeriesWork::end) return;
    Contender& contender = contenders.at(as_index(entry));
    if (work == SeriesWork::build) contender.build(batch);
    if (work == SeriesWork::step) (void)contender.step();
    if (work == SeriesWork::drop) contender.drop();
    if (work == SeriesWork::finish) (void)contender.finish();
  }
}

/// Ends the plan that ran when another rank ended, as Environment: nobody knows whose fault that was.
void tell_of_lost_rank(const Error& error, std::optional<int> running, const Replies& reply) {
  if (running) reply(EntryFinished{*running, Environment{error.problem() + " (" + error.where() + ")"}});
  reply(RanksLost{});
}

}  // namespace

void run_series(const SeriesRequest& request, const Replies& reply) {
  const std::shared_ptr<RankGroup> group = ranks_for(request);
  std::optional<int> running = 0;  // set before the first step, so that the series then goes on with fewer plans, not for ever
  const Replies watched = [&](const Reply& news) {
    if (const auto* begun = std::get_if<StepStarted>(&news)) running = begun->entry;
    if (const auto* ended = std::get_if<EntryFinished>(&news); ended != nullptr && running == ended->entry) running.reset();
    reply(news);
  };
  try {
    for_ranks(group, [&] {
      const Batch batch = batch_of(request.setup, model_of(request.setup).model);
      SeriesRanks ranks(group, static_cast<int>(request.series.entries.size()));
      std::vector<Contender> contenders;
      for (const Series::Entry& entry : request.series.entries)
        contenders.emplace_back(request.setup, entry.plan, static_cast<int>(contenders.size()), ranks);
      if (!ranks.lead()) return follow_series(ranks, contenders, batch);
      lead_series(request, contenders, batch, watched);
      ranks.tell(SeriesWork::end, 0);
    });
  } catch (const Error& error) {
    if (!group || group->rank() > 0 || error.code() != ExitCode::environment) throw;
    tell_of_lost_rank(error, running, reply);
  }
}

}  // namespace mptune::tuner
