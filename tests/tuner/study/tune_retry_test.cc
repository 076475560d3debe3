// What a resumed tuning run tries again, what it keeps of a plan that failed, and what it does once its budget is spent.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <set>

#include "planner/plan/file/plan_file.h"
#include "tests/tuner/study/tune_fixture.h"
#include "tuner/study/recommend/finalists.h"
#include "tuner/study/retry.h"

namespace mptune::tuner {
namespace {

/// Names of the series with one plan, with how often each ran.
std::map<std::string, int> tried_alone(const std::vector<Series>& series) {
  std::map<std::string, int> count;
  for (const Series& one : series)
    if (one.entries.size() == 1) ++count[one.entries.front().name];
  return count;
}

TEST(Retry, WhatMayEndOtherwise) {
  const std::set<std::string> again{"timed_out", "interrupted", "environment"};
  for (const char* name : kOutcomeNames) EXPECT_EQ(worth_retrying(*outcome_named(name)), again.contains(name)) << name;
  EXPECT_TRUE(worth_retrying(Crashed{SIGKILL, 0}));
  EXPECT_FALSE(worth_retrying(Crashed{SIGSEGV, 0}));
  EXPECT_FALSE(worth_retrying(Crashed{0, 1}));
}

TEST(Retry, TheLastTrialOfAPlanCounts) {
  std::vector<Trial> trials(4);
  const auto set = [&](int index, const char* key, const Outcome& outcome) {
    trials[static_cast<std::size_t>(index)].plan_key = key;
    trials[static_cast<std::size_t>(index)].outcome = outcome;
  };
  set(0, "a", TimedOut{30});
  set(1, "b", Measured{});
  set(2, "a", Measured{});
  set(3, "b", Environment{"no sign of life"});
  EXPECT_EQ(plans_to_retry(trials), std::vector<std::string>{"b"});
  EXPECT_FALSE(all_failed_for_good(trials)) << "b may end otherwise";
  EXPECT_FALSE(all_failed_for_good({}));
  for (Trial& trial : trials) trial.outcome = Crashed{SIGSEGV, 0};
  EXPECT_TRUE(all_failed_for_good(trials));
  trials.front().outcome = Measured{};
  EXPECT_FALSE(all_failed_for_good(trials));
}

TEST_F(Tune, ResumeTriesAgainWhatMayEndOtherwise) {
  build(half_second_machine(), {.seed = 4, .memory_bytes = {}});
  const std::map<std::string, Outcome> failing{{planner::kPipelineBaseline, TimedOut{30}}, {planner::kDataParallelBaseline, OutOfMemory{}}};
  runner_->after = [&](const Series& series, std::vector<Trial>& trials) {
    if (series.entries.size() > 1) return;
    if (const auto found = failing.find(trials[0].name); found != failing.end()) trials[0].outcome = found->second;
    if (trials[0].name == kCandidateName) trials[0].outcome = Crashed{SIGKILL, 0};
  };
  std::vector<std::string> kept;
  services_.keep_failed = [&](const Trial& trial) {
    kept.push_back(trial.plan_key);
    return "mptune run";
  };
  const TuneResult first = run();
  EXPECT_EQ(kept.size(), 4U) << "two baselines, and two candidates in a row that were killed";
  EXPECT_EQ(tried_alone(runner_->series_run)[kCandidateName], 2);

  runner_->after = nullptr;
  runner_->series_run.clear();
  const TuneResult second = run(Study::Open::resume);
  const auto tried = tried_alone(runner_->series_run);
  EXPECT_EQ(tried.count(planner::kPipelineBaseline), 1U);
  EXPECT_EQ(tried.count(planner::kDataParallelBaseline), 0U);
  EXPECT_GE(tried.at(kCandidateName), 2);
  EXPECT_EQ(kept.size(), 4U);
  const auto has = [&](const TuneResult& result, const std::string& name) {
    return std::ranges::any_of(result.recommendation.baselines, [&](const BaselineResult& baseline) { return baseline.name == name; });
  };
  EXPECT_FALSE(has(first, planner::kPipelineBaseline));
  EXPECT_TRUE(has(second, planner::kPipelineBaseline));
  EXPECT_LE(inner_->truth(second.recommendation.recommended.trial.plan), 1.05 * true_best());

  const int runs = runner_->runs;
  static_cast<void>(run(Study::Open::resume));
  EXPECT_EQ(runner_->runs, runs);
}

TEST_F(Tune, AFinalThatLostAPlanIsRunAgain) {
  build(half_second_machine(), {.seed = 4, .memory_bytes = {}});
  runner_->after = [](const Series& series, std::vector<Trial>& trials) {
    if (series.entries.size() > 1) trials[0].outcome = Environment{"no sign of life"};
  };
  const TuneResult first = run();
  runner_->after = nullptr;
  const int runs = runner_->runs;
  const TuneResult second = run(Study::Open::resume);
  EXPECT_GT(runner_->runs, runs);
  EXPECT_EQ(second.recommendation.baselines.size(), first.recommendation.baselines.size() + 1);
}

TEST_F(Tune, ABudgetSpentOnTheCheckEndsTheRunBeforeTheProfile) {
  build(half_second_machine(), {.memory_bytes = {}});
  services_.check = [this](const PhaseTime&) {
    now_ += 1000;
    return false;
  };
  EXPECT_EQ(error_of_run().code(), ExitCode::no_result);
  EXPECT_EQ(measured_, 0);
  services_.check = nullptr;
  EXPECT_GT(run(Study::Open::resume).trials.size(), 4U);
}

// Other programs take most of the machine: every step takes four times what the profile says, and workers start slowly.
TEST_F(Tune, ALoadedMachineExceedsTheBudgetByATrialAtMost) {
  testing::FakeMachine loaded = half_second_machine();
  loaded.base_s *= 4;
  loaded.fixed_s *= 4;
  for (const double budget : {20.0, 80.0}) {
    build(loaded, {.seed = 3, .noise = 0.02, .memory_bytes = {}}, 4);
    profile_ = testing::fake_profile(half_second_machine());
    services_.record = [&](const Plan& plan, const std::string&) { now_ += 4 + 12 * inner_->truth(plan); };
    options_.budget_s = budget;
    testing::TemporaryFolder folder;
    Study study(folder / "s", Study::Open::create);
    const TuneResult result = tune(options_, study, services_);
    double longest_s = 0;
    for (const Series& series : runner_->series_run)
      if (series.entries.size() == 1)
        longest_s = std::max(longest_s, 4 + inner_->truth(series.entries.front().plan) * (series.warm_up + series.rounds));
    EXPECT_LE(result.elapsed_s, budget + longest_s) << budget;
  }
}

}  // namespace
}  // namespace mptune::tuner
