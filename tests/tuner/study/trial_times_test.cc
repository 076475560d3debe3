#include "tuner/study/trial_times.h"

#include <gtest/gtest.h>

namespace mptune::tuner {
namespace {

Trial measured(double step_s, int rounds) {
  return {.name = "candidate",
          .plan_key = "",
          .plan = {},
          .prediction = {},
          .outcome = Measured{samples_of(std::vector<double>(rounds, step_s)), {}, 0}};
}

TEST(TrialTimes, BeforeTheFirstTrialOnlyStepsAreKnown) {
  const TrialTimes times;
  EXPECT_EQ(times.trials(), 0);
  EXPECT_DOUBLE_EQ(times.trial_s(0.5), 0.5 * (1 + 2));
  EXPECT_DOUBLE_EQ(times.series_s({0.5, 0.25}, 3), 0.75 * (1 + 3));
  EXPECT_DOUBLE_EQ(times.series_s({}, 3), 0);
  const TrialTimes known(4);
  EXPECT_DOUBLE_EQ(known.trial_s(0.5), 4 + 0.5 * (1 + 2)) << "or what the start of another worker took";
  EXPECT_DOUBLE_EQ(known.least_trial_s(0.5), 4 + 0.5 * (1 + 1));
}

TEST(TrialTimes, ATrialHasAboutASecondOfTimedSteps) {
  EXPECT_EQ(TrialTimes::rounds_for(0), 2) << "not predicted";
  EXPECT_EQ(TrialTimes::rounds_for(0.01), 10);
  EXPECT_EQ(TrialTimes::rounds_for(0.24), 5);
  EXPECT_EQ(TrialTimes::rounds_for(20), 2);
}

TEST(TrialTimes, WhatIsNotSpentInStepsIsTheWorkersMean) {
  TrialTimes times(100);
  times.note(measured(0.1, 9), 3);  // 10 steps with the warm-up: 2 s besides
  times.note(measured(0.2, 4), 5);  // 4 s besides
  times.note({.name = "candidate", .plan_key = "", .plan = {}, .prediction = {}, .outcome = TimedOut{}}, 30);
  EXPECT_EQ(times.trials(), 2) << "a plan that hung says nothing";
  EXPECT_DOUBLE_EQ(times.trial_s(0.5), 3 + 0.5 * 3);
  EXPECT_DOUBLE_EQ(times.series_s({0.5, 0.5, 0.5}, 1), 3 * (1 + 0.5 * 2) + 1.5 * 2) << "each further model is built in half a start";
  EXPECT_DOUBLE_EQ(times.recording_s(0), 3);
}

TEST(TrialTimes, AMachineThatGetsSlowerIsNoticed) {
  TrialTimes times;
  for (int i = 0; i < 10; ++i) times.note(measured(0.1, 9), 2);  // 1 s besides the steps
  EXPECT_DOUBLE_EQ(times.recording_s(0), 1);
  for (int i = 0; i < 3; ++i) times.note(measured(0.1, 9), 5);
  EXPECT_DOUBLE_EQ(times.recording_s(0), 4);
  for (int i = 0; i < 3; ++i) times.note(measured(0.1, 9), 2);
  EXPECT_NEAR(times.recording_s(0), (10 * 1 + 3 * 4 + 3 * 1) / 16.0, 1e-12);
}

}  // namespace
}  // namespace mptune::tuner
