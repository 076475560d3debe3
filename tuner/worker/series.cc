#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/model/autocast_scope.h"
#include "tuner/runtime/check_operation.h"
#include "tuner/worker/ranks.h"
#include "tuner/worker/requests.h"
#include "tuner/worker/round_watch.h"
#include "tuner/worker/series_ranks.h"

namespace mptune::tuner {

namespace {

/// One plan of a series, from its construction to its outcome.
class Contender {
 public:
  Contender(const TrainingSetup& setup, const Plan& plan, int entry, SeriesRanks& ranks)
      : setup_(setup), plan_(plan), entry_(entry), ranks_(ranks) {}

  /// A step; empty when the plan failed, and then outcome() says why.
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

  /// Without batch norm a plan changes nothing of the first loss but its rounding.
  void check_against(double loss) {
    constexpr double kRounding = 1e-4;
    const double allowed = std::max(kRounding, 8 * epsilon_of(profiler::computed_type(plan_.options.precision)));
    if (has_batch_statistics_ || std::abs(measured_.loss - loss) <= allowed * std::max(1.0, std::abs(loss))) return;
    outcome_ = WrongResult{"first loss " + std::to_string(measured_.loss) + " instead of " + std::to_string(loss)};
    ranks_.tell(SeriesWork::drop, entry_);
    drop();
  }

  void add(const Sample& sample) { measured_.step_s.values.push_back(sample); }
  /// The last step left the optimizers out: fp16 overflowed.
  [[nodiscard]] bool skipped() const { return skipped_; }
  [[nodiscard]] bool alive() const { return run_ != nullptr; }
  [[nodiscard]] double loss() const { return measured_.loss; }

  [[nodiscard]] Outcome finish() {
    if (!run_) return outcome_;
    ranks_.tell(SeriesWork::finish, entry_);
    measured_.peak_bytes = peaks_of(run_->pipeline());
    return measured_;
  }

  /// A failed plan holds no memory while the others run on.
  void drop() {
    run_.reset();
    devices_.clear();
    own_ranks_.reset();
  }

 private:
  /// An Error of the machine or the user is passed on, on all ranks.
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
    } catch (const c10::Error& error) {
      const std::string text = error.what_without_backtrace();
      return Outcome(Infeasible{text.substr(0, text.find('\n'))});
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
  std::shared_ptr<RankGroup> own_ranks_;          ///< of this plan: it may fail while others run on
  std::vector<std::shared_ptr<Device>> devices_;  ///< known before the run is: building it may fail
  std::unique_ptr<TrainingRun> run_;
  bool has_batch_statistics_ = false;
  bool skipped_ = false;
  Measured measured_;
  Outcome outcome_ = Infeasible{"not run"};
};

/// So often is the first scale of fp16's loss halved before it is 1.
constexpr int kMostSkipped = 16;

/// Builds every plan and runs its warm-up steps, and as many more until the optimizers step, too; all plans' first losses must agree.
void warm_up(std::vector<Contender>& contenders, const Series& series, const Batch& batch, const Replies& reply) {
  std::optional<double> first_loss;
  for (int i = 0; i < static_cast<int>(contenders.size()); ++i) {
    Contender& contender = contenders[as_index(i)];
    reply(StepStarted{i, -1});
    contender.build(batch);
    const int steps = std::max(1, series.warm_up);
    for (int w = 0; (w < steps || (contender.skipped() && w < steps + kMostSkipped)) && contender.alive(); ++w) {
      reply(StepStarted{i, -1});
      if (!contender.step() || w > 0) continue;
      if (first_loss) contender.check_against(*first_loss);
      if (contender.alive() && !first_loss) first_loss = contender.loss();
    }
    if (!contender.alive()) reply(EntryFinished{i, contender.finish()});
  }
}

/// One step of every plan that has not failed.
void run_round(std::vector<Contender>& contenders, int round, const std::function<double()>& elapsed, const Replies& reply) {
  const int count = static_cast<int>(contenders.size());
  for (int position = 0; position < count; ++position) {
    const int i = entry_at(round, position, count);
    Contender& contender = contenders[as_index(i)];
    if (!contender.alive()) continue;
    reply(StepStarted{i, round});
    const double started = elapsed();
    if (const auto result = contender.step()) {
      contender.add({result->seconds, round, position, started});
      reply(StepTimed{i, round, position, started, result->seconds});
    } else {
      reply(EntryFinished{i, contender.finish()});
    }
  }
}

/// Warm-up and rounds, on rank 0.
void lead_series(const SeriesRequest& request, std::vector<Contender>& contenders, const Batch& batch, const Replies& reply) {
  const Series& series = request.series;
  warm_up(contenders, series, batch, reply);
  const auto elapsed = [&] { return monotonic_seconds() - request.started_s; };
  RoundWatch watch(cores_of(series));
  double longest = 0;
  int disturbed = 0;
  for (int round = 0; round_fits(series, round, elapsed(), longest, disturbed); ++round) {
    const double began = elapsed();
    run_round(contenders, round, elapsed, reply);
    longest = std::max(longest, elapsed() - began);
    if (const auto rounds = watch.after_round(round)) {
      disturbed += rounds->last - rounds->first + 1;
      reply(RoundsDisturbed{*rounds});
    }
  }
  for (int i = 0; i < static_cast<int>(contenders.size()); ++i)
    if (contenders[as_index(i)].alive()) reply(EntryFinished{i, contenders[as_index(i)].finish()});
}

/// On other ranks: what rank 0 does.
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

/// What becomes of the plan that ran when another rank ended: nobody knows whose fault that was.
void tell_of_lost_rank(const Error& error, std::optional<int> running, const Replies& reply) {
  if (running) reply(EntryFinished{*running, Environment{std::string(error.what()) + " (" + error.where() + ")"}});
  reply(RanksLost{});
}

}  // namespace

void run_series(const SeriesRequest& request, const Replies& reply) {
  const std::shared_ptr<RankGroup> group = ranks_for(request);
  std::optional<int> running = 0;  // before the first step: the series goes on with fewer plans, not for ever
  const Replies watched = [&](const Reply& news) {
    if (const auto* begun = std::get_if<StepStarted>(&news)) running = begun->entry;
    if (const auto* ended = std::get_if<EntryFinished>(&news); ended != nullptr && running == ended->entry) running.reset();
    reply(news);
  };
  try {
    for_ranks(group, [&] {
      const Batch batch = batch_of(request.setup, model_of(request.setup).model);
      SeriesRanks ranks(group);
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
