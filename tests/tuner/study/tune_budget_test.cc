// When tune ends, what it keeps, and what it does when it is started again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <limits>
#include <set>

#include "planner/plan/file/plan_file.h"
#include "profiler/base/error.h"
#include "profiler/trace/store/store.h"
#include "reports/render/recommendation_text.h"
#include "tests/support/variants.h"
#include "tests/tuner/study/tune_fixture.h"
#include "tuner/study/explore/trial_search.h"
#include "tuner/study/no_result.h"
#include "tuner/study/recommend/finalists.h"

namespace mptune::tuner {
namespace {

TEST_F(Tune, BudgetIsKept) {
  for (const double start_s : {0.0, 1.0, 4.0}) {
    for (const double budget : {12.0, 30.0, 60.0, 150.0, 600.0}) {
      for (const double scale : {0.01, 0.3, 1.0}) {
        testing::FakeMachine machine = half_second_machine();
        machine.base_s *= scale;
        machine.fixed_s *= scale;
        build(machine, {.seed = 3, .noise = 0.02, .memory_bytes = {}}, start_s);
        options_.space.schedules = {"gpipe", "1f1b"};
        // A worker of its own, two steps of warm-up, five without and five with recording.
        services_.record = [&](const Plan& plan, const std::string&) { now_ += start_s + 12 * inner_->truth(plan); };
        options_.budget_s = budget;
        testing::TemporaryFolder folder;
        Study study(folder / "s", Study::Open::create);
        const TuneResult result = tune(options_, study, services_);
        // Two steps that are slower than predicted, where the last trial just fitted.
        const double slack = 0.25 * inner_->truth(testing::fake_plan(0, 1));
        EXPECT_LE(result.elapsed_s, budget + slack) << "budget " << budget << ", scale " << scale << ", start " << start_s;
      }
    }
  }
}

TEST_F(Tune, TracesThatTheBudgetHasNoTimeForAreWarnings) {
  build(half_second_machine(), {.memory_bytes = {}});
  options_.budget_s = 20;
  const TuneResult result = run();
  EXPECT_LE(result.elapsed_s, options_.budget_s);
  EXPECT_TRUE(recorded_.empty());
  const std::vector<std::string> warnings = reports::texts_of(result.recommendation.warnings);
  EXPECT_TRUE(std::any_of(warnings.begin(), warnings.end(), [](const std::string& text) {
    return text.find("no trace of recommended") != std::string::npos && text.find("--resume") != std::string::npos;
  }));
  static_cast<void>(run(Study::Open::resume));
  EXPECT_EQ(recorded_.front(), "recommended");
}

TEST_F(Tune, ResumeRunsNothingAgain) {
  build(half_second_machine(), {.seed = 4, .memory_bytes = {}});
  const TuneResult first = run();
  const int runs = runner_->runs;
  const TuneResult second = run(Study::Open::resume);
  EXPECT_EQ(runner_->runs, runs);
  EXPECT_EQ(second.recommendation.recommended.trial.plan_key, first.recommendation.recommended.trial.plan_key);
  EXPECT_EQ(second.recommendation.recommended.step_s, first.recommendation.recommended.step_s);
  EXPECT_EQ(second.recommendation.baselines.size(), first.recommendation.baselines.size());
  EXPECT_EQ(second.trials.size(), first.trials.size());
  EXPECT_EQ(second.stop_reason, first.stop_reason);
}

TEST_F(Tune, ProfileOfTheStudyIsUsed) {
  build(half_second_machine(), {.seed = 4, .memory_bytes = {}});
  services_.measure = [this](const PhaseTime&) {
    ++measured_;
    profiler::Recording recording;
    recording.profile = profile_;
    profiler::write_recording(recording, (folder_ / "study") + "/traces/profile.sqlite", true);
    return profile_;
  };
  static_cast<void>(run());
  static_cast<void>(run(Study::Open::resume));
  EXPECT_EQ(measured_, 1);
}

TEST_F(Tune, TheModelIsCheckedUntilAllIsComparedAndOneThatDiffersIsNotTuned) {
  build(half_second_machine(), {.seed = 4, .memory_bytes = {}});
  int checked = 0;
  bool differs = true, had_time = false;
  services_.check = [&](const PhaseTime& time) {
    EXPECT_GT(time.share_s, 0);
    EXPECT_LT(time.most_s, options_.budget_s / 2);
    ++checked;
    now_ += time.share_s;
    if (differs) throw Error("the pieces differ", "layer drop", "see mptune check");
    return had_time;
  };
  EXPECT_EQ(error_of_run().code(), ExitCode::usage);
  EXPECT_EQ(measured_, 0);
  differs = false;
  EXPECT_LE(run(Study::Open::resume).elapsed_s, options_.budget_s);
  had_time = true;
  static_cast<void>(run(Study::Open::resume));
  static_cast<void>(run(Study::Open::resume));
  EXPECT_EQ(checked, 3) << "what had no time is compared later, and nothing twice";
}

TEST_F(Tune, InterruptionLosesNothingThatFinished) {
  for (int stop_at = 0; stop_at < 12; ++stop_at) {
    build(half_second_machine(), {.seed = 5, .memory_bytes = {}});
    options_.space.schedules = {"gpipe", "1f1b", "zb1p"};
    testing::TemporaryFolder folder;
    std::set<std::string> finished;
    runner_->before = [&](const Series& series) {
      if (runner_->runs == stop_at) throw Error("interrupted", "", "", ExitCode::interrupted);
      for (const Series::Entry& entry : series.entries)
        if (series.entries.size() == 1) {
          EXPECT_TRUE(finished.insert(plan_key(entry.plan)).second);
        }
    };
    bool interrupted = false;
    try {
      Study study(folder / "s", Study::Open::create);
      static_cast<void>(tune(options_, study, services_));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::interrupted);
      interrupted = true;
    }
    Study study(folder / "s", Study::Open::resume);
    if (interrupted) {
      EXPECT_EQ(static_cast<int>(study.trials().size()), stop_at);
    }
    runner_->runs = stop_at + 1;
    now_ = 0;
    const TuneResult result = tune(options_, study, services_);
    EXPECT_LE(inner_->truth(result.recommendation.recommended.trial.plan), 1.05 * true_best());
  }
}

TEST_F(Tune, InterruptedOutcomeAndFlagEndIt) {
  class Interrupting : public TrialRunner {
   public:
    std::vector<Trial> run(const Series& series) override {
      Trial trial;
      trial.name = series.entries[0].name;
      trial.plan = series.entries[0].plan;
      return {trial};
    }
  } interrupting;
  build(half_second_machine(), {.memory_bytes = {}});
  services_.runner = &interrupting;
  EXPECT_EQ(error_of_run().code(), ExitCode::interrupted);
  EXPECT_TRUE(Study(folder_ / "study", Study::Open::read).trials().empty());
  interrupt_flag() = SIGTERM;
  EXPECT_EQ(error_of_run(Study::Open::resume).code(), ExitCode::terminated);
}

TEST_F(Tune, NothingFitsIsInfeasible) {
  build(half_second_machine(), {.memory_bytes = {1000, 1000}});
  options_.space.memory_bytes = {1000, 1000};
  options_.space.whole_machine_memory_bytes = 1000;
  const Error error = error_of_run();
  EXPECT_EQ(error.code(), ExitCode::infeasible);
  EXPECT_NE(error.problem().find("bytes more"), std::string::npos) << error.problem();
}

TEST_F(Tune, BudgetSpentBeforeAFirstTrialIsNoResult) {
  build(half_second_machine(), {.memory_bytes = {}});
  services_.measure = [this](const PhaseTime&) {
    now_ += 1000;
    return profile_;
  };
  EXPECT_EQ(error_of_run().code(), ExitCode::no_result);
  EXPECT_EQ(runner_->runs, 0);
}

// No trial begins that can't end in time, and the budget that is named is enough.
TEST_F(Tune, ABudgetTooSmallForATrialNamesOneThatDoes) {
  for (const double start_s : {1.0, 4.0})
    for (const double budget : {0.5, 1.0, 2.0, 4.0, 5.0}) {
      build(half_second_machine(), {.seed = 1, .memory_bytes = {}}, start_s);
      options_.budget_s = budget;
      options_.worker_s = start_s;
      const double began = now_;
      testing::TemporaryFolder folder;
      double enough_s = 0;
      try {
        Study study(folder / "s", Study::Open::create);
        static_cast<void>(tune(options_, study, services_));
        EXPECT_GT(runner_->runs, 0);
        continue;
      } catch (const BudgetTooSmall& error) {
        EXPECT_EQ(error.code(), ExitCode::no_result);
        EXPECT_THAT(error.what(), ::testing::HasSubstr("a step of the fastest plan is predicted to take"));
        enough_s = error.enough_s();
      }
      EXPECT_EQ(runner_->runs, 0);
      EXPECT_LE(now_ - began, budget) << "it ends as soon as it knows";
      EXPECT_GT(enough_s, budget);
      options_.budget_s = enough_s;
      Study study(folder / "s", Study::Open::resume);
      const TuneResult result = tune(options_, study, services_);
      EXPECT_GE(result.trials.size(), 2U) << start_s << ", " << budget;
    }
}

TEST_F(Tune, WithoutTimeForAllBaselinesTheFastestAreTriedFirst) {
  build(half_second_machine(), {.seed = 1, .memory_bytes = {}}, 2);
  options_.budget_s = 14;
  options_.worker_s = 2;
  static_cast<void>(run());
  ASSERT_FALSE(runner_->series_run.empty());
  const double first_s = inner_->truth(runner_->series_run.front().entries.front().plan);
  for (const planner::NamedPlan& baseline : planner::baseline_plans(options_.space, machine_.layers))
    EXPECT_LE(first_s, 1.2 * inner_->truth(baseline.plan)) << baseline.name;
}

// The machine gets so slow that the last series does not get to a step.
TEST_F(Tune, AFinalWithoutAStepLeavesTheFastestTrialAsTheAnswer) {
  build(half_second_machine(), {.seed = 7, .memory_bytes = {}});
  runner_->after = [](const Series& series, std::vector<Trial>& trials) {
    if (series.entries.size() > 1)
      for (Trial& trial : trials) trial.outcome = Interrupted{.out_of_time = true};
  };
  const TuneResult first = run();
  EXPECT_FALSE(first.recommendation.decided);
  double fastest_s = std::numeric_limits<double>::infinity();
  for (const Trial& trial : first.trials) {
    EXPECT_FALSE(std::holds_alternative<Interrupted>(trial.outcome)) << "what was not measured is not stored";
    fastest_s = std::min(fastest_s, measured_step(trial).value_or(fastest_s));
  }
  EXPECT_EQ(first.recommendation.recommended.step_s, fastest_s);
  const std::string last = reports::text_of(first.recommendation.warnings.back());
  EXPECT_NE(last.find("--resume"), std::string::npos) << last;
  runner_->after = nullptr;
  EXPECT_GT(run(Study::Open::resume).recommendation.baselines.size(), 2U);
}

TEST_F(Tune, AFinalWithoutTimeForAllDecidesNothingAndIsRacedByResume) {
  build(half_second_machine(), {.seed = 7, .memory_bytes = {}});
  options_.budget_s = 60;
  // The fourth trial hangs until hardly anything is left of the budget.
  runner_->before = [this](const Series&) {
    if (runner_->runs == 3) now_ += 160 - now_ - 2;
  };
  const TuneResult first = run();
  EXPECT_FALSE(first.recommendation.decided);
  const std::string last = reports::text_of(first.recommendation.warnings.back());
  EXPECT_NE(last.find("--resume"), std::string::npos) << last;
  EXPECT_EQ(reports::text_of(first.recommendation.advice.front()).find("no split beats"), std::string::npos);
  runner_->before = nullptr;
  options_.budget_s = 200;
  const TuneResult second = run(Study::Open::resume);
  EXPECT_GT(runner_->series_run.back().entries.size(), 3U);
  EXPECT_TRUE(std::ranges::none_of(second.recommendation.warnings,
                                   [](const Warning& warning) { return std::holds_alternative<NoTimeToMeasure>(warning); }));
}

// The fourth trial hangs, so that little time is left for the last series: fewer plans then, but with the rounds of a verdict.
TEST_F(Tune, AShortFinalHasVerdictsOnTheMostImportantPlans) {
  std::set<std::size_t> finalists;
  for (const double left_s : {4.0, 8.0, 10.0, 12.0, 14.0, 18.0, 25.0}) {
    build(half_second_machine(), {.seed = 7, .noise = 0.01, .memory_bytes = {}});
    services_.record = nullptr;
    options_.budget_s = 60;
    runner_->before = [this, hangs_until = now_ + options_.budget_s - left_s](const Series&) {
      if (runner_->runs == 3) now_ = std::max(now_, hangs_until);
    };
    testing::TemporaryFolder folder;
    Study study(folder / "s", Study::Open::create);
    const TuneResult result = tune(options_, study, services_);
    const std::vector<Series::Entry>& entries = runner_->series_run.back().entries;
    finalists.insert(entries.size());
    if (entries.size() < 3) continue;
    for (const BaselineResult& baseline : result.recommendation.baselines) {
      if (baseline.trial.plan_key == result.recommendation.recommended.trial.plan_key) continue;
      EXPECT_GE(baseline.speedup.pairs, kLeastPairs) << baseline.name << " with " << left_s << " s left";
    }
  }
  EXPECT_GE(finalists.size(), 3U) << "more time, more plans";
}

// Every look at the clock takes a second.
TEST_F(Tune, ASearchThatTakesLongLeavesTimeForTrials) {
  build(half_second_machine(), {.seed = 1, .model_error = 0.01, .memory_bytes = {}});
  options_.budget_s = 600;
  bool searching = false;
  double searched_s = 0;
  services_.progress = [&](const std::string& what, double) { searching = what == "search"; };
  services_.clock = [&] {
    if (searching) ++searched_s;
    return now_ + searched_s;
  };
  const TuneResult result = run();
  EXPECT_GT(searched_s, 0.02 * options_.budget_s) << "it ended before its share did";
  EXPECT_LT(searched_s, 0.05 * options_.budget_s);
  EXPECT_GE(result.trials.size(), 5u);
  EXPECT_LE(result.elapsed_s, options_.budget_s);
}

}  // namespace
}  // namespace mptune::tuner
