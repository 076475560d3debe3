// What tune recommends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <limits>
#include <set>

#include "planner/plan/file/plan_file.h"
#include "planner/plan/plan_words.h"
#include "profiler/base/error.h"
#include "profiler/trace/store/store.h"
#include "reports/render/recommendation_text.h"
#include "tests/support/simulated_runner.h"
#include "tests/support/variants.h"
#include "tests/tuner/study/tune_fixture.h"
#include "tuner/study/explore/trial_search.h"
#include "tuner/study/recommend/finalists.h"
#include "tuner/study/stored_recommendation.h"

namespace mptune::tuner {
namespace {

TEST_F(Tune, MeasuresEveryBaselineAndRecommendsTheTrueBest) {
  build(half_second_machine(), {.seed = 1, .noise = 0.01, .model_error = 0.04, .memory_bytes = {}});
  const TuneResult result = run();
  std::set<std::string> names;
  for (const BaselineResult& baseline : result.recommendation.baselines) {
    names.insert(baseline.name);
    EXPECT_GE(baseline.speedup.pairs, 10) << baseline.name;
  }
  EXPECT_EQ(names, (std::set<std::string>{"single_device", "all_cores", "naive_model_parallel", "default_pipeline", "data_parallel"}));
  EXPECT_LE(inner_->truth(result.recommendation.recommended.trial.plan), 1.03 * true_best());
  EXPECT_LE(result.elapsed_s, options_.budget_s);
  EXPECT_NEAR(result.gap, result.recommendation.recommended.step_s / result.lower_bound_s - 1, 1e-12);
  EXPECT_TRUE(result.recommendation.best_pipeline);
  EXPECT_EQ(recorded_.front(), "recommended");
  EXPECT_EQ(measured_, 1);
  EXPECT_GT(told_, 5);
  EXPECT_FALSE(result.stop_reason.empty());
  std::printf("%zu trials in %d workers, %.0f s of %.0f s, %zu final rounds, best %.3f of the true best; %s; %s\n", result.trials.size(),
              runner_->runs, result.elapsed_s, options_.budget_s,
              std::get<Measured>(result.recommendation.recommended.trial.outcome).step_s.size(),
              inner_->truth(result.recommendation.recommended.trial.plan) / true_best(), result.stop_reason.c_str(),
              reports::text_of(result.recommendation.advice.front()).c_str());
}

TEST_F(Tune, BestOfEachKindIsInTheFinalOnce) {
  build(half_second_machine(), {.seed = 2, .memory_bytes = {}});
  static_cast<void>(run());
  const Series& last = runner_->series_run.back();
  std::set<std::string> keys;
  for (const Series::Entry& entry : last.entries) EXPECT_TRUE(keys.insert(plan_key(entry.plan)).second) << entry.name;
  for (std::size_t i = 0; i + 1 < runner_->series_run.size(); ++i) {
    ASSERT_EQ(runner_->series_run[i].entries.size(), 1u);
    EXPECT_TRUE(runner_->series_run[i].entries[0].prediction);
  }
  std::set<std::string> tried;
  for (std::size_t i = 0; i + 1 < runner_->series_run.size(); ++i)
    EXPECT_TRUE(tried.insert(plan_key(runner_->series_run[i].entries[0].plan)).second) << "a plan was tried twice";
}

TEST_F(Tune, TheBestHybridIsRacedWhereDevicesAllowOne) {
  testing::FakeMachine machine = half_second_machine();
  machine.devices = 4;
  build(machine, {.seed = 4, .memory_bytes = {}});
  const TuneResult result = run();
  const auto hybrids = std::ranges::count_if(runner_->series_run.back().entries, [](const Series::Entry& entry) {
    return planner::parallelism_of(entry.plan) == planner::Parallelism::hybrid;
  });
  EXPECT_GE(hybrids, 1);
  EXPECT_LE(hybrids, 3) << "the best, the second of several stages, the runner-up of all";
  const std::vector<KindResult>& rows = result.recommendation.kinds.rows;
  ASSERT_EQ(rows.size(), 5U);
  double least_s = rows[0].step_s;
  for (const KindResult& row : rows) {
    EXPECT_EQ(reports::text_of(row.why_not), "") << to_string(row.kind);
    ASSERT_TRUE(row.trial) << to_string(row.kind);
    least_s = std::min(least_s, row.step_s);
  }
  const auto best = std::ranges::find(rows, true, &KindResult::best);
  EXPECT_LE(best->step_s, 1.02 * least_s);
  EXPECT_EQ(best->trial->plan_key, result.recommendation.recommended.trial.plan_key);
  EXPECT_EQ(result.kind_facts.other_devices.size(), 2U);
}

TEST_F(Tune, SleepingDevicesHoldNothingSoCapsAreTheProfiles) {
  build(half_second_machine(), {.seed = 5, .memory_bytes = {}});
  for (ProfileDevice& device : profile_.devices) device.name.replace(0, 3, "sleep");
  cost_ = std::make_unique<CostModel>(profile_);
  inner_ = std::make_unique<testing::SimulatedRunner>(*cost_, testing::SimulatedRunner::Options{.seed = 5, .memory_bytes = {}});
  runner_ = std::make_unique<testing::ClockedRunner>(*inner_, now_, 1);
  services_.runner = runner_.get();
  options_.space.devices = {"sleep:0", "sleep:1"};
  options_.space.whole_machine.clear();
  // Parameters and gradients of the whole model take 64 MiB.
  options_.space.memory_bytes = {50 << 20, 50 << 20};
  const TuneResult result = run();
  EXPECT_EQ(planner::parallelism_of(result.recommendation.recommended.trial.plan), planner::Parallelism::pipeline);
  const std::string why_not = reports::text_of(result.recommendation.kinds.rows[0].why_not);
  EXPECT_TRUE(why_not.starts_with("out of memory on sleep:0: ")) << why_not;
  for (const Series& series : runner_->series_run)
    for (const Series::Entry& entry : series.entries) EXPECT_GT(entry.plan.num_stages(), 1) << "what would not fit was run";
}

TEST_F(Tune, MemoryCapLeadsToAPipeline) {
  testing::FakeMachine machine = half_second_machine();
  machine.parameters_bytes = 64 << 20;
  machine.saved_bytes_per_sample = 1 << 16;
  CostModel cost(testing::fake_profile(machine));
  const std::int64_t whole = predict(testing::fake_plan(0, 1), cost).peak_bytes.at(0);
  const std::int64_t cap = whole * 7 / 10;
  build(machine, {.seed = 6, .memory_bytes = {cap, cap}});
  options_.space.memory_bytes = {cap, cap};
  options_.space.whole_machine_memory_bytes = cap;
  const TuneResult result = run();
  EXPECT_EQ(planner::parallelism_of(result.recommendation.recommended.trial.plan), planner::Parallelism::pipeline);
  for (const std::int64_t peak : result.recommendation.recommended.peak_bytes) EXPECT_LE(peak, cap);
  int out_of_memory = 0;
  for (const Trial& trial : result.trials) out_of_memory += std::holds_alternative<OutOfMemory>(trial.outcome) ? 1 : 0;
  EXPECT_GE(out_of_memory, 2);
  for (const Series::Entry& entry : runner_->series_run.back().entries) {
    EXPECT_NE(entry.name, "single_device");
    EXPECT_NE(entry.name, "data_parallel");
  }
}

TEST_F(Tune, CurrentPlanIsRacedFirst) {
  build(half_second_machine(), {.seed = 7, .memory_bytes = {}});
  options_.current = testing::fake_plan(5, 2);
  const TuneResult result = run();
  EXPECT_EQ(runner_->series_run.front().entries[0].name, "current");
  EXPECT_EQ(result.recommendation.baselines.front().name, "current");
  EXPECT_EQ(result.recommendation.baselines.size(), 6u);
}

TEST_F(Tune, ThePlanThatWasAskedForIsInTheAnswer) {
  build(half_second_machine(), {.seed = 7, .memory_bytes = {}});
  options_.space.stage_counts = {2};
  options_.space.recompute = "all";
  options_.asked = "--stages 2 --recompute all";
  const TuneResult result = run();
  const auto& baselines = result.recommendation.baselines;
  const auto asked = std::ranges::find(baselines, "asked_for", &BaselineResult::name);
  ASSERT_NE(asked, baselines.end());
  EXPECT_EQ(asked->trial.plan.num_stages(), 2);
  for (const Stage& stage : asked->trial.plan.stages) EXPECT_EQ(stage.recompute.mode, Recompute::Mode::all);
  EXPECT_NE(result.recommendation.recommended.trial.plan.stages[0].recompute.mode, Recompute::Mode::all) << "a baseline is faster here";
  double fastest_s = std::numeric_limits<double>::infinity();
  const auto last_series = result.trials.back().series;
  for (const Trial& trial : result.trials) {
    const bool allowed = trial.plan.num_stages() == 2 && trial.plan.stages[0].recompute.mode == Recompute::Mode::all;
    if (allowed && trial.series != last_series) fastest_s = std::min(fastest_s, measured_step(trial).value_or(fastest_s));
  }
  const auto tried = std::ranges::find_if(result.trials, [&](const Trial& trial) { return trial.plan_key == asked->trial.plan_key; });
  EXPECT_EQ(measured_step(*tried), fastest_s) << "of those that the options allow";
}

TEST_F(Tune, CurrentPlanThatIsABaselineKeepsBothNames) {
  build(half_second_machine(), {.seed = 7, .memory_bytes = {}});
  for (const planner::NamedPlan& baseline : planner::baseline_plans(options_.space, machine_.layers))
    if (baseline.name == "default_pipeline") options_.current = baseline.plan;
  ASSERT_TRUE(options_.current);
  const TuneResult result = run();
  std::set<std::string> names;
  for (const BaselineResult& baseline : result.recommendation.baselines) names.insert(baseline.name);
  EXPECT_TRUE(names.contains("current") && names.contains("default_pipeline"));
  std::multiset<std::string> keys;
  for (const Trial& trial : result.trials) keys.insert(trial.plan_key);
  EXPECT_EQ(keys.count(plan_key(*options_.current)), 2u);  // one trial, and the final
}

TEST_F(Tune, NothingBetterIsSaidHonestly) {
  // Copies and hand-overs cost nothing worth saving: all cores together are three times one core, and no split of two reaches that.
  testing::FakeMachine machine = half_second_machine();
  machine.whole_machine_gain = 3;
  build(machine, {.seed = 8, .model_error = 0.01, .memory_bytes = {}});
  const TuneResult result = run();
  // In one micro-batch or in two: the machine's random error decides between these.
  EXPECT_TRUE(describe(result.recommendation.recommended.trial.plan).starts_with("one device of 2 cores"));
  EXPECT_NE(reports::text_of(result.recommendation.advice.front()).find("no split beats the un-pipelined model"), std::string::npos);
}

TEST_F(Tune, AllCoresInChannelsLastIsRecommendedWhereItWins) {
  testing::FakeMachine machine = half_second_machine();
  machine.whole_machine_gain = 3;
  build(machine, {.seed = 8, .model_error = 0.01, .memory_bytes = {}});
  profile_ = testing::with_channels_last(profile_, 0.7);
  testing::SimulatedRunner runner(CostModel(profile_), {.seed = 8, .model_error = 0.01, .start_s = 1, .memory_bytes = {}});
  testing::ClockedRunner clocked(runner, now_, 1);
  services_.runner = &clocked;
  options_.space.variants = {{}, {.memory_format = MemoryFormat::channels_last}};
  const TuneResult result = run();
  EXPECT_EQ(result.recommendation.recommended.trial.name, "all_cores_channels_last");
  EXPECT_EQ(result.recommendation.recommended.description, "one device of 2 cores, channels_last");
  ASSERT_TRUE(result.recommendation.recommended.trial.prediction);
  EXPECT_NEAR(result.recommendation.recommended.trial.prediction->step_s, result.recommendation.recommended.step_s,
              0.1 * result.recommendation.recommended.step_s);
  EXPECT_TRUE(std::ranges::any_of(result.recommendation.baselines, [](const BaselineResult& b) { return b.name == "all_cores"; }));
  const auto pipeline = std::ranges::find_if(result.trials, [](const Trial& trial) {
    return trial.plan.num_stages() > 1 && trial.plan.options.memory_format == MemoryFormat::channels_last;
  });
  EXPECT_NE(pipeline, result.trials.end());
  EXPECT_EQ(Study(folder_ / "study", Study::Open::resume).trials().size(), result.trials.size());
}

TEST_F(Tune, FormatsThatWereNotMeasuredAreNotTried) {
  build(half_second_machine(), {.memory_bytes = {}});
  options_.space.variants = {{}, {.memory_format = MemoryFormat::channels_last}};
  for (const Trial& trial : run().trials) EXPECT_TRUE(is_exact(trial.plan)) << trial.name;
}

TEST_F(Tune, WhatFailedIsInTheResultAndInTheStoredStudy) {
  build(half_second_machine(), {.seed = 1, .memory_bytes = {}});
  runner_->after = [](const Series& series, std::vector<Trial>& trials) {
    for (Trial& trial : trials) {
      if (trial.name == planner::kSingleDeviceBaseline) trial.outcome = NonFinite{};
      if (trial.name == planner::kDataParallelBaseline && series.entries.size() > 1) trial.outcome = Crashed{6, 0};
    }
  };
  const TuneResult result = run();
  const auto told = [](const Recommendation& recommendation) {
    std::vector<std::string> lines = reports::texts_of(recommendation.warnings);
    for (const UnmeasuredPlan& plan : recommendation.unmeasured.baselines) lines.push_back(plan.name + ": " + reports::text_of(plan.why));
    return lines;
  };
  const std::vector<std::string> lines = told(result.recommendation);
  const auto has = [&](const std::string& line) { return std::ranges::find(lines, line) != lines.end(); };
  EXPECT_TRUE(has("single_device: the loss is not finite"));
  EXPECT_TRUE(has("data_parallel: failed in the final comparison: crashed by signal 6"));
  EXPECT_TRUE(
      has("the recommendation is not compared with single_device, which failed: the loss is not finite; lower --lr or check the data"));
  EXPECT_EQ(result.baselines.size(), 5U);

  const Study study(folder_ / "study", Study::Open::read);
  StudySummary summary;
  summary.devices = options_.space.devices;
  summary.whole_machine = options_.space.whole_machine;
  summary.batch = options_.space.batch;
  summary.kinds = result.kind_facts;
  summary.baselines = result.baselines;
  EXPECT_EQ(told(recommendation_of(study, summary, profile_)), lines);
  summary.baselines.clear();
  EXPECT_EQ(told(recommendation_of(study, summary, profile_)), lines) << "a study of an earlier version";
}

TEST_F(Tune, AKilledPlanEarnsOneTryOfTheNext) {
  build(half_second_machine(), {.seed = 1, .memory_bytes = {}});
  int candidates = 0;
  runner_->after = [&](const Series& series, std::vector<Trial>& trials) {
    if (series.entries.size() > 1 || trials[0].name != kCandidateName) return;
    ++candidates;
    trials[0].outcome = Crashed{SIGKILL, 0, ""};
  };
  const TuneResult result = run();
  EXPECT_EQ(candidates, 2);
  EXPECT_THAT(result.stop_reason, ::testing::StartsWith("two plans in a row were killed"));
}

TEST_F(Tune, APlanThatLivesBeginsTheCountOfKilledOnesAnew) {
  build(half_second_machine(), {.seed = 1, .memory_bytes = {}});
  int candidates = 0;
  runner_->after = [&](const Series& series, std::vector<Trial>& trials) {
    if (series.entries.size() > 1 || trials[0].name != kCandidateName) return;
    if (++candidates % 2 == 1) trials[0].outcome = Crashed{SIGKILL, 0, ""};
  };
  const TuneResult result = run();
  EXPECT_GT(candidates, 2);
  EXPECT_THAT(result.stop_reason, ::testing::Not(::testing::StartsWith("two plans in a row were killed")));
}

TEST_F(Tune, AFinalThatWasCutShortHasThePeaksOfTheTrials) {
  build(half_second_machine(), {.seed = 1, .memory_bytes = {}});
  runner_->after = [](const Series& series, std::vector<Trial>& trials) {
    if (series.entries.size() == 1) return;
    for (Trial& trial : trials) std::get<Measured>(trial.outcome).peak_bytes.clear();
  };
  const RecommendedPlan best = run().recommendation.recommended;
  EXPECT_FALSE(best.peak_bytes.empty());
}

TEST_F(Tune, FailedTraceIsAWarningOnly) {
  build(half_second_machine(), {.memory_bytes = {}});
  services_.record = [](const Plan&, const std::string&) { throw Error("recording failed", "cpu:0", "none", ExitCode::environment); };
  const TuneResult result = run();
  const std::vector<std::string> warnings = reports::texts_of(result.recommendation.warnings);
  EXPECT_TRUE(std::any_of(warnings.begin(), warnings.end(),
                          [](const std::string& text) { return text.find("recording failed") != std::string::npos; }));
}

}  // namespace
}  // namespace mptune::tuner
