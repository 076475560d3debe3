// A series across workers.
#include "tuner/worker/host/live_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "tests/support/error_of.h"
#include "tests/support/tuner_fakes.h"
#include "tests/tuner/worker/host/worker_fixture.h"

namespace mptune::tuner {
namespace {

using testing::error_of;

class SeriesOfWorkers : public Worker {};

Series series_of(const std::vector<std::string>& names, int rounds) {
  Series series;
  Prediction prediction;
  prediction.step_s = 1;
  int cut = 1;
  for (const std::string& name : names) series.entries.push_back({name, testing::fake_plan(cut++, 4), prediction});
  series.rounds = rounds;
  series.step_limit_s = 20;
  return series;
}

int count_samples(const Trial& trial) {
  return static_cast<int>(std::get<Measured>(trial.outcome).step_s.size());
}

TEST_F(SeriesOfWorkers, SeriesBringsATrialPerEntry) {
  int steps = 0;
  LiveRunner runner({}, [&](const Series&, const StepTimed&) { ++steps; });
  const auto trials = runner.run(series_of({"ok", "oom", "fine"}, 5));
  ASSERT_EQ(trials.size(), 3u);
  EXPECT_EQ(trials[0].name, "ok");
  EXPECT_EQ(trials[0].prediction->step_s, 1);
  EXPECT_EQ(trials[0].plan, testing::fake_plan(1, 4));
  EXPECT_EQ(trials[0].plan_key.size(), 12u);
  EXPECT_EQ(count_samples(trials[0]), 5);
  EXPECT_EQ(std::get<Measured>(trials[2].outcome).peak_bytes, (std::vector<std::int64_t>{7, 8}));
  EXPECT_EQ(outcome_class(trials[1].outcome), "out_of_memory");
  EXPECT_EQ(steps, 10);
}

TEST_F(SeriesOfWorkers, DisturbedRoundsAreLeftOutOfAllPlans) {
  LiveRunner runner({}, {});
  for (const Trial& trial : runner.run(series_of({"ok", "disturbed@2"}, 8))) {
    const auto& measured = std::get<Measured>(trial.outcome);
    EXPECT_EQ(measured.step_s.size(), 7u) << trial.name;
    EXPECT_TRUE(std::ranges::none_of(measured.step_s.values, [](const Sample& sample) { return sample.round == 2; })) << trial.name;
    EXPECT_EQ(measured.noise, (Noise{1, 0, Disturbance{DisturbedBy::other_programs, 0.33}})) << trial.name;
  }
}

TEST_F(SeriesOfWorkers, DisturbedRoundsAreKnownByTheirNumberAfterACrash) {
  LiveRunner runner({}, {});
  // The first worker dies in round 3; the second one's round 4 is the series' round 7.
  const auto trials = runner.run(series_of({"exit@3", "disturbed@4"}, 12));
  const auto& measured = std::get<Measured>(trials[1].outcome);
  EXPECT_EQ(measured.noise.left_out, 1);
  EXPECT_TRUE(std::ranges::none_of(measured.step_s.values, [](const Sample& sample) { return sample.round == 7; }));
}

TEST_F(SeriesOfWorkers, CrashedEntryIsBlamedAndTheOthersGoOn) {
  for (const std::string name : {"segv@0", "exit@1", "segv@2", "exit@5"}) {
    for (std::size_t place = 0; place < 3; ++place) {
      std::vector<std::string> names{"a", "b"};
      names.insert(names.begin() + static_cast<std::ptrdiff_t>(place), name);
      LiveRunner runner({}, {});
      const auto trials = runner.run(series_of(names, 6));
      for (std::size_t i = 0; i < 3; ++i) {
        if (i == place) {
          ASSERT_EQ(outcome_class(trials[i].outcome), "crashed") << name << " at " << place;
          continue;
        }
        ASSERT_EQ(outcome_class(trials[i].outcome), "measured") << name << " at " << place;
        const Samples& samples = std::get<Measured>(trials[i].outcome).step_s;
        ASSERT_EQ(samples.size(), 6u) << name << " at " << place;
        for (int r = 0; r < 6; ++r) EXPECT_EQ(samples.values[as_index(r)].round, r);
        for (std::size_t r = 1; r < 6; ++r) EXPECT_GT(samples.values[r].started, samples.values[r - 1].started);
      }
    }
  }
}

TEST_F(SeriesOfWorkers, AWorkerThatClosesItsPipeIsTheMachinesFailure) {
  LiveRunner runner({}, {});
  const auto trials = runner.run(series_of({"close@1", "fine"}, 3));
  EXPECT_EQ(trials[0].outcome, Outcome(Environment{"mptune-worker closed its pipe and went on"}));
  EXPECT_EQ(count_samples(trials[1]), 3);
}

TEST_F(SeriesOfWorkers, CulpritOfAWarmUpStepIsKnown) {
  for (std::size_t place = 0; place < 3; ++place) {
    std::vector<std::string> names{"a", "b"};
    names.insert(names.begin() + static_cast<std::ptrdiff_t>(place), "exit@w");
    LiveRunner runner({}, {});
    const auto trials = runner.run(series_of(names, 2));
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(outcome_class(trials[i].outcome), i == place ? "crashed" : "measured") << place;
    EXPECT_EQ(std::get<Crashed>(trials[place].outcome).exit_code, 3);
  }
}

TEST_F(SeriesOfWorkers, HangingEntryTimesOutAndTheOthersGoOn) {
  Series series = series_of({"ok", "hang@1"}, 3);
  series.step_limit_s = 0.2;
  LiveRunner runner({}, {});
  const auto trials = runner.run(series);
  EXPECT_EQ(trials[1].outcome, Outcome(TimedOut{0.2}));
  EXPECT_EQ(count_samples(trials[0]), 3);
}

// A second longer than the step is waited for a step that began in time.
TEST_F(SeriesOfWorkers, AtTheEndOfTheTimeASlowStepEndsTheSeriesAndMeasuredStepsStay) {
  const auto start = Clock::now();
  Series series = series_of({"ok", "hang@2", "late"}, 1000);
  series.ends_s = 3;
  for (Series::Entry& entry : series.entries) entry.prediction->step_s = 0.2;
  LiveRunner runner({}, {});
  const auto trials = runner.run(series);
  EXPECT_GT(seconds_since(start), 4);
  EXPECT_LT(seconds_since(start), 15) << "the limit of a step is 20 s";
  for (const Trial& trial : trials) EXPECT_GE(count_samples(trial), 2) << trial.name << ": no plan is stuck after so short a time";
}

TEST_F(SeriesOfWorkers, PlansThatTheTimeHadNoStepForAreOutOfTime) {
  Series series = series_of({"hang@0", "late"}, 3);
  series.ends_s = 0.1;
  for (Series::Entry& entry : series.entries) entry.prediction->step_s = 0.01;
  LiveRunner runner({}, {});
  for (const Trial& trial : runner.run(series)) EXPECT_EQ(trial.outcome, Outcome(Interrupted{.out_of_time = true})) << trial.name;
  series = series_of({"exit@0", "late"}, 3);
  series.ends_s = 0;
  for (Series::Entry& entry : series.entries) entry.prediction->step_s = 30;
  const auto trials = runner.run(series);
  EXPECT_EQ(outcome_class(trials[0].outcome), "crashed");
  EXPECT_EQ(trials[1].outcome, Outcome(Interrupted{.out_of_time = true})) << "no second worker begins";
}

TEST_F(SeriesOfWorkers, WorkerThatDiesBeforeTheFirstStepEndsTheSeries) {
  behave("segv");
  LiveRunner runner({}, {});
  for (const Trial& trial : runner.run(series_of({"a", "b"}, 3))) EXPECT_EQ(trial.outcome, Outcome(Crashed{SIGSEGV, 0}));
}

TEST_F(SeriesOfWorkers, InterruptedSeriesReturnsWhatItHas) {
  // Interrupted in the first round; the second never ends.
  LiveRunner runner({}, [](const Series&, const StepTimed&) { interrupt_flag() = SIGINT; });
  const auto trials = runner.run(series_of({"oom", "hang@1"}, 3));
  EXPECT_EQ(outcome_class(trials[0].outcome), "out_of_memory");
  EXPECT_EQ(outcome_class(trials[1].outcome), "interrupted");
}

TEST_F(SeriesOfWorkers, BrokenMachineEndsTheSeriesWithAnError) {
  behave("loader");
  LiveRunner runner({}, {});
  EXPECT_EQ(error_of([&] { static_cast<void>(runner.run(series_of({"ok"}, 1))); }).code(), ExitCode::environment);
  behave("failed");
  EXPECT_EQ(error_of([&] { static_cast<void>(runner.run(series_of({"ok"}, 1))); }).code(), ExitCode::usage);
  behave("deaf");
  EXPECT_EQ(error_of([&] { static_cast<void>(runner.run(series_of({"ok"}, 1))); }).code(), ExitCode::internal);
}

}  // namespace
}  // namespace mptune::tuner
