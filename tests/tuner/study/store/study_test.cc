// What a study holds, and that it loses nothing.
#include "tuner/study/store/study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/tuner/study/store/studies.h"

namespace mptune::tuner {
namespace {

void expect_equal(const Trial& a, const Trial& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.series, b.series);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.plan_key, b.plan_key);
  EXPECT_EQ(a.plan, b.plan);
  EXPECT_EQ(a.prediction, b.prediction);
  EXPECT_EQ(a.outcome, b.outcome) << outcome_class(a.outcome);
}

TEST(Study, EveryTrialComesBackExactly) {
  const testing::TemporaryFolder folder;
  const std::vector<Outcome> outcomes{
      Measured{some_samples(), {1L << 40, 2}, 0.1 + 0.2, {3, 4, Disturbance{DisturbedBy::other_machines, 0.25}}},
      OutOfMemory{"cpu:1", 1L << 41, 4},
      TimedOut{1.0 / 3},
      Crashed{11, 3},
      WrongResult{"loss 'differs'"},
      NonFinite{},
      Infeasible{"no"},
      Interrupted{},
      Environment{"disk"}};
  ASSERT_EQ(outcomes.size(), std::variant_size_v<Outcome>);
  std::vector<Trial> added;
  {
    Study study(folder / "s", Open::create);
    for (const Outcome& outcome : outcomes) {
      Trial trial = trial_with(outcome, static_cast<int>(added.size()) / 2);
      if (added.size() % 2 == 0) trial.prediction = Prediction{1.0 / 3, 0.1, {1L << 42, 7}, {0.5, 1e-9}, 1, true};
      EXPECT_EQ(study.next_series(), added.empty() ? 0 : added.back().series + 1);
      EXPECT_EQ(study.add(trial), trial.id);
      if (!added.empty()) {
        EXPECT_GT(trial.id, added.back().id);
      }
      added.push_back(trial);
    }
  }
  for (const Open mode : {Open::resume, Open::read}) {
    const auto trials = Study(folder / "s", mode).trials();
    ASSERT_EQ(trials.size(), added.size());
    for (std::size_t i = 0; i < added.size(); ++i) expect_equal(trials[i], added[i]);
  }
}

TEST(Study, NonFiniteNumbersDoNotLoseATrial) {
  const testing::TemporaryFolder folder;
  Study study(folder / "s", Open::create);
  Trial trial = trial_with(Measured{some_samples(), {}, std::numeric_limits<double>::quiet_NaN()});
  study.add(trial);
  EXPECT_TRUE(std::isnan(std::get<Measured>(study.trials().at(0).outcome).loss));
}

TEST(Study, StateOfATuningIsKept) {
  const testing::TemporaryFolder folder;
  StudySummary summary{
      .devices = {"cpu:0", "cpu:1"},
      .whole_machine = {"cpu:0-1"},
      .batch = 32,
      .lower_bound_s = 1.0 / 3,
      .gap = 0.25,
      .elapsed_s = 1e-300,
      .stop_reason = "the \"budget\" is spent",
      .training = {"toy:layers=6", "8x3", "8", "cpu:0,cpu:1", "1GiB", "1GB/s", "all-reduce", "mse", "adam", "0.1", "bf16", "3",
                   folder / "a b/batch.pt"},
      .kinds = {.whole_machine = {"cpu:0-1"},
                .predicted = {{planner::Parallelism::pipeline, {"of 2 stages", 0.1, {1L << 40, 2}}}},
                .no_plan = {{planner::Parallelism::hybrid, {.why = NoPlan::Why::needs_devices, .needed = 3, .available = 2}},
                            {planner::Parallelism::one_device,
                             {.why = NoPlan::Why::over_cap, .device = "cpu:0", .needed_bytes = 1L << 40, .cap_bytes = 3}}},
                .other_devices = {{4, planner::Parallelism::pipeline, 0.05}}},
      .stages_per_device = {3, 8, StagesPerDevice::End::slower},
      .baselines = {{"single_device", "0123456789ab", "one device", 0.5}, {"current", "ba9876543210", "a pipeline", 0}}};
  {
    Study study(folder / "s", Open::create);
    EXPECT_FALSE(study.checked());
    EXPECT_EQ(study.final_series(), std::nullopt);
    EXPECT_EQ(study.not_benchmarked(), "");
    EXPECT_EQ(study.summary(), std::nullopt);
    study.set_checked();
    Trial trial = trial_with(NonFinite{}, 12);
    study.add(trial);
    study.set_final_series(0);
    EXPECT_EQ(error_of([&] { (void)study.final_series(); }).code(), ExitCode::usage) << "no trial has it";
    study.set_final_series(12);
    study.set_not_benchmarked("one device");
    study.set_summary(summary);
  }
  const Study study(folder / "s", Open::read);
  EXPECT_TRUE(study.checked());
  EXPECT_EQ(study.final_series(), 12);
  EXPECT_EQ(study.not_benchmarked(), "one device");
  EXPECT_EQ(study.summary(), summary);
}

TEST(Study, SummariesOfEarlierVersionsHoldWordsAlone) {
  const std::string text = R"({"devices": ["cpu:0"], "whole_machine": [], "batch": 1, "lower_bound_s": 0, "gap": 0, "elapsed_s": 0,
    "stop_reason": "", "kinds": {"no_plan": {"hybrid": "needs at least 3 devices; 2 available",
    "pipeline": "does not fit: no plan of this kind was found within the caps"}}})";
  const std::map<planner::Parallelism, NoPlan> no_plan = summary_from_json(text, "s.study").kinds.no_plan;
  EXPECT_EQ(text_of(no_plan.at(planner::Parallelism::hybrid)), "needs at least 3 devices; 2 available");
  EXPECT_FALSE(too_large(no_plan.at(planner::Parallelism::hybrid)));
  EXPECT_EQ(text_of(no_plan.at(planner::Parallelism::pipeline)), "does not fit: no plan of this kind was found within the caps");
  EXPECT_TRUE(too_large(no_plan.at(planner::Parallelism::pipeline)));
  EXPECT_TRUE(summary_from_json(text, "s.study").baselines.empty());
}

TEST(Study, DamagedSummaryIsRefused) {
  for (const char* text : {"", "{", "[]", "{}", R"({"devices": 3})"})
    EXPECT_THAT(error_of([&] { (void)summary_from_json(text, "s.study"); }).problem(), ::testing::HasSubstr("damaged")) << text;
}

TEST(Study, ValuesAndNames) {
  const testing::TemporaryFolder folder;
  Study study((folder / "s") + "/", Open::create);
  EXPECT_EQ(study.stop_reason(), "");
  study.set_stop_reason("1");
  study.set_stop_reason("2");
  EXPECT_EQ(study.stop_reason(), "2");
  EXPECT_EQ(study.folder(), folder / "s");
  EXPECT_EQ(study.profile_path(), (folder / "s") + "/traces/profile.sqlite");
  EXPECT_EQ(study.trace_path("recommended"), (folder / "s") + "/traces/recommended.sqlite");
  EXPECT_EQ(study.plan_path(), (folder / "s") + "/s.plan.json");
  study.set_identity(R"({"setup": {"model": "transformer:d=256,layers=8"}})");
  EXPECT_EQ(study.plan_path(), (folder / "s") + "/transformer.plan.json");
}

TEST(Study, ResumeNamesWhatDiffers) {
  const testing::TemporaryFolder folder;
  Study(folder / "s", Open::create).set_identity(R"({"model": "mlp", "batch": 32, "fingerprint": {"a": 1}})");
  Study study(folder / "s", Open::resume);
  study.set_identity(R"({"batch":32,"fingerprint":{"a":1},"model":"mlp"})");
  const Error error = error_of([&] { study.set_identity(R"({"model": "mlp", "batch": 64, "fingerprint": {"a": 2}})"); });
  EXPECT_EQ(error.code(), ExitCode::usage);
  EXPECT_EQ(error.problem(), "the study was made with another batch, fingerprint");
  EXPECT_EQ(error_of([&] { study.set_identity(R"({"model": "mlp", "batch": 32})"); }).code(), ExitCode::usage);
}

TEST(Study, KillLosesNothingAcknowledgedAndFreesTheLock) {
  const testing::TemporaryFolder folder;
  for (int attempt = 0; attempt < 5; ++attempt) {
    const std::string path = folder / std::to_string(attempt);
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      Study study(path, Open::create);
      while (true) {
        Trial trial = trial_with(Measured{some_samples(), {1, 2}, 1});
        study.add(trial);
        if (::write(pipe[1], &trial.id, sizeof trial.id) != sizeof trial.id) ::_exit(1);
      }
    }
    int acknowledged = 0;
    for (int i = 0; i < 20 + 13 * attempt; ++i) ASSERT_EQ(::read(pipe[0], &acknowledged, sizeof acknowledged), 4);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ::close(pipe[1]);
    int more = 0;
    while (::read(pipe[0], &more, sizeof more) == 4) acknowledged = more;
    ::close(pipe[0]);
    Study study(path, Open::resume);
    const auto trials = study.trials();
    ASSERT_GE(static_cast<int>(trials.size()), acknowledged);
    for (const Trial& trial : trials) EXPECT_EQ(trial.outcome, Outcome(Measured{some_samples(), {1, 2}, 1}));
  }
}

TEST(Study, FullDiskIsAnEnvironmentErrorAndKeepsWhatWasThere) {
  const testing::TemporaryFolder folder;
  const int code = in_child([&] {
    Study study(folder / "s", Open::create);
    Trial first = trial_with(NonFinite{});
    study.add(first);
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{64 << 10, 64 << 10};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    Measured large;
    for (int i = 0; i < 20000; ++i) large.step_s.values.push_back({0.1 * i, i, 0, 0.0});
    const Error error = error_of([&] {
      Trial trial = trial_with(large);
      study.add(trial);
    });
    return error.code() == ExitCode::environment ? 0 : 1;
  });
  EXPECT_EQ(code, 0);
  const auto trials = Study(folder / "s", Open::resume).trials();
  ASSERT_EQ(trials.size(), 1u);
  EXPECT_EQ(trials[0].outcome, Outcome(NonFinite{}));
}

}  // namespace
}  // namespace mptune::tuner
