#include "tuner/trial/disturbance.h"

#include <gtest/gtest.h>

#include "tuner/trial/trial.h"

namespace mptune::tuner {
namespace {

constexpr MachineUse kBefore{.busy_s = 100, .stolen_s = 7, .own_s = 3, .wall_s = 50};

MachineUse after(double busy_s, double own_s, double stolen_s = 0, double wall_s = 1) {
  return {.busy_s = kBefore.busy_s + busy_s,
          .stolen_s = kBefore.stolen_s + stolen_s,
          .own_s = kBefore.own_s + own_s,
          .wall_s = kBefore.wall_s + wall_s};
}

TEST(Disturbance, NoneWhereOnlyThisProcessWorked) {
  EXPECT_FALSE(judge_use(kBefore, after(2, 2), 2, 1e-4, 1e-4));
  EXPECT_FALSE(judge_use(kBefore, after(2.1, 2), 2, 1.05e-4, 1e-4)) << "within what is tolerated";
  EXPECT_FALSE(judge_use(kBefore, after(1, 2), 2, 1e-4, 1e-4)) << "work on other cores";
  EXPECT_FALSE(judge_use(kBefore, kBefore, 2, 1e-4, 1e-4)) << "no time";
}

TEST(Disturbance, OfOtherPrograms) {
  const auto seen = judge_use(kBefore, after(1.8, 1), 2, 1e-4, 1e-4);
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->by, DisturbedBy::other_programs);
  EXPECT_NEAR(seen->share, 0.4, 0.03);
}

TEST(Disturbance, OfOtherMachinesAndTheClock) {
  EXPECT_EQ(judge_use(kBefore, after(1, 1, 0.2), 2, 1e-4, 1e-4)->by, DisturbedBy::other_machines);
  const auto clock = judge_use(kBefore, after(2, 2), 2, 1.25e-4, 1e-4);
  ASSERT_TRUE(clock);
  EXPECT_EQ(clock->by, DisturbedBy::slow_clock);
  EXPECT_NEAR(clock->share, 0.2, 1e-9);
  EXPECT_EQ(judge_use(kBefore, after(1, 1, 1.5), 2, 1.25e-4, 1e-4)->by, DisturbedBy::other_machines) << "the larger cause";
}

Trial trial_of(int rounds) {
  Trial trial;
  Measured measured;
  for (int round = 0; round < rounds; ++round) measured.step_s.values.push_back({.value = 1.0 + round, .round = round});
  trial.outcome = measured;
  return trial;
}

TEST(DisturbedRounds, AreLeftOutWhereEnoughOthersWereMeasured) {
  std::vector<Trial> trials{trial_of(10), Trial{}};
  const std::vector<DisturbedRounds> disturbed{{0, 1, {DisturbedBy::other_programs, 0.2}}, {5, 5, {DisturbedBy::slow_clock, 0.3}}};
  leave_out_disturbed(trials, disturbed, 6);
  const auto& measured = std::get<Measured>(trials[0].outcome);
  EXPECT_EQ(measured.step_s.size(), 7u);
  EXPECT_EQ(measured.step_s.values.front().round, 2);
  EXPECT_EQ(measured.noise, (Noise{3, 0, Disturbance{DisturbedBy::slow_clock, 0.3}}));
}

TEST(DisturbedRounds, CountWhereTooFewOthersWereMeasured) {
  std::vector<Trial> trials{trial_of(4)};
  leave_out_disturbed(trials, {{1, 3, {DisturbedBy::other_machines, 0.1}}}, 2);
  const auto& measured = std::get<Measured>(trials[0].outcome);
  EXPECT_EQ(measured.step_s.size(), 4u);
  EXPECT_EQ(measured.noise, (Noise{0, 3, Disturbance{DisturbedBy::other_machines, 0.1}}));
}

TEST(DisturbedRounds, AreRepeatedOnceEach) {
  const Series series{.entries = {}, .rounds = 10, .budget_s = 100};
  EXPECT_EQ(rounds_wanted(series, 0), 10);
  EXPECT_EQ(rounds_wanted(series, 4), 14);
  EXPECT_EQ(rounds_wanted(series, 15), 20);
  EXPECT_FALSE(round_fits(series, 10, 1, 1));
  EXPECT_TRUE(round_fits(series, 10, 1, 1, 1));
}

}  // namespace
}  // namespace mptune::tuner
