#include "tuner/trial/trial.h"

#include <gtest/gtest.h>

#include <set>

#include "profiler/trace/statistics/verdict.h"
#include "tests/support/simulated_runner.h"
#include "tests/support/tuner_fakes.h"

namespace mptune::tuner {
namespace {

Series two_plans(int rounds) {
  Series series;
  series.entries = {{"a", testing::fake_plan(4, 4), std::nullopt}, {"b", testing::fake_plan(0, 1), std::nullopt}};
  series.rounds = rounds;
  series.budget_s = 1e9;
  return series;
}

testing::SimulatedRunner runner_with(const testing::SimulatedRunner::Options& options) {
  return testing::SimulatedRunner(CostModel(testing::fake_profile({})), options);
}

const Samples& samples_of_trial(const Trial& trial) {
  return std::get<Measured>(trial.outcome).step_s;
}

TEST(Outcome, ClassesAreDistinctAndTextsTell) {
  const std::vector<Outcome> outcomes{Measured{},         OutOfMemory{"cpu:1", 120 << 20, 1 << 30},
                                      TimedOut{2},        Crashed{11, 0},
                                      WrongResult{"why"}, NonFinite{},
                                      Infeasible{"x"},    Interrupted{},
                                      Environment{"disk"}};
  std::set<std::string> classes, texts;
  for (const Outcome& outcome : outcomes) {
    classes.insert(outcome_class(outcome));
    texts.insert(outcome_text(outcome));
  }
  EXPECT_EQ(classes.size(), std::variant_size_v<Outcome>);
  EXPECT_EQ(texts.size(), std::variant_size_v<Outcome>);
  EXPECT_EQ(outcome_text(outcomes[1]), "out of memory on cpu:1: 120 MiB asked with a cap of 1.00 GiB");
  EXPECT_EQ(outcome_text(Crashed{0, 3}), "crashed with exit code 3");
  EXPECT_EQ(outcome_text(Crashed{11, 0}), "crashed by signal 11");
  EXPECT_EQ(outcome_class(Environment{}), "environment");
}

TEST(Outcome, NamesNameTheirAlternatives) {
  for (std::size_t i = 0; i < kOutcomeNames.size(); ++i) {
    const auto outcome = outcome_named(kOutcomeNames[i]);
    ASSERT_TRUE(outcome) << kOutcomeNames[i];
    EXPECT_EQ(outcome->index(), i);
    EXPECT_EQ(outcome_class(*outcome), kOutcomeNames[i]);
  }
  EXPECT_FALSE(outcome_named("Measured"));
  EXPECT_FALSE(outcome_named(""));
}

TEST(SimulatedRunner, SameSeedSameSamples) {
  auto a = runner_with({.seed = 5, .memory_bytes = {}});
  auto b = runner_with({.seed = 5, .memory_bytes = {}});
  auto c = runner_with({.seed = 6, .memory_bytes = {}});
  const auto first = a.run(two_plans(5));
  const auto second = b.run(two_plans(5));
  const auto other = c.run(two_plans(5));
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(first[i].outcome, second[i].outcome);
    EXPECT_NE(first[i].outcome, other[i].outcome);
  }
  EXPECT_NE(a.run(two_plans(5))[0].outcome, first[0].outcome);
}

TEST(SimulatedRunner, RoundsAreInterleavedBackAndForth) {
  auto runner = runner_with({.memory_bytes = {}});
  const auto trials = runner.run(two_plans(4));
  for (std::size_t r = 0; r < 4; ++r) {
    const Sample& a = samples_of_trial(trials[0]).values[r];
    const Sample& b = samples_of_trial(trials[1]).values[r];
    EXPECT_EQ(a.round, static_cast<int>(r));
    EXPECT_EQ(a.position, r % 2 == 0 ? 0 : 1);
    EXPECT_EQ(a.started < b.started, r % 2 == 0);
  }
}

TEST(SimulatedRunner, KnownTruthIsFoundWithinTheNoise) {
  auto runner = runner_with({.seed = 3, .noise = 0.02, .model_error = 0.1, .memory_bytes = {}});
  const auto trials = runner.run(two_plans(400));
  for (const Trial& trial : trials) {
    EXPECT_NEAR(median(samples_of_trial(trial)) / runner.truth(trial.plan), 1, 0.01);
    EXPECT_NEAR(spread(samples_of_trial(trial)), 0.02 * 1.349, 0.006);
  }
}

TEST(SimulatedRunner, DriftCancelsInPairs) {
  auto runner = runner_with({.noise = 0.001, .model_error = 0, .drift_per_step = 0.002, .memory_bytes = {}});
  const auto trials = runner.run(two_plans(40));
  const double ratio = runner.truth(trials[0].plan) / runner.truth(trials[1].plan);
  EXPECT_GT(spread(samples_of_trial(trials[0])), 0.03);
  EXPECT_NEAR(paired_speedup(samples_of_trial(trials[0]), samples_of_trial(trials[1])).estimate / ratio, 1, 0.002);
}

TEST(SimulatedRunner, CapsBudgetAndLimitHold) {
  auto capped = runner_with({.memory_bytes = {1 << 20, 0}});
  const auto failed = capped.run(two_plans(3));
  EXPECT_EQ(outcome_class(failed[0].outcome), "out_of_memory");
  EXPECT_EQ(std::get<OutOfMemory>(failed[0].outcome).device, "cpu:0");
  auto runner = runner_with({.memory_bytes = {}});
  Series series = two_plans(100);
  series.budget_s = 0;
  EXPECT_EQ(samples_of_trial(runner.run(series)[0]).size(), 1u);
  series.step_limit_s = 1e-6;
  EXPECT_EQ(runner.run(series)[0].outcome, Outcome(TimedOut{1e-6}));
}

TEST(SimulatedRunner, NoStepBeginsAfterTheEnd) {
  auto runner = runner_with({.memory_bytes = {}});
  Series series = two_plans(100);
  const double a_s = runner.truth(series.entries[0].plan), b_s = runner.truth(series.entries[1].plan);
  for (const double ends_s : {0.0, 0.5 * a_s, a_s + 0.5 * b_s, 1.5 * a_s + b_s, 2.5 * (a_s + b_s), 7.5 * (a_s + b_s)}) {
    series.ends_s = ends_s;
    for (const Trial& trial : runner.run(series)) {
      const auto* measured = std::get_if<Measured>(&trial.outcome);
      if (measured == nullptr) {
        EXPECT_EQ(trial.outcome, Outcome(Interrupted{.out_of_time = true}));
        EXPECT_LT(ends_s, 2.5 * (a_s + b_s));
        continue;
      }
      EXPECT_GE(ends_s, a_s + b_s) << "each plan warms up first";
      for (const Sample& sample : measured->step_s.values) EXPECT_LT(sample.started, ends_s);
    }
  }
}

}  // namespace
}  // namespace mptune::tuner
