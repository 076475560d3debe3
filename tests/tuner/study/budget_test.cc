// How the budget is shared out among the phases, and what budget is enough.
#include "tuner/study/budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tuner/study/trial_times.h"

namespace mptune::tuner {
namespace {

constexpr Phase kPhases[] = {Phase::check, Phase::measure, Phase::search, Phase::second_search, Phase::outlook};

TEST(PhaseTime, IsAShareOfWhatIsLeft) {
  for (const Phase phase : kPhases) {
    double before_s = 0;
    for (double left_s = 0; left_s < 1000; left_s = 2 * left_s + 0.01) {
      const PhaseTime time = time_of(phase, left_s);
      EXPECT_GE(time.share_s, before_s) << "more time is never less for a phase";
      EXPECT_LE(time.share_s, time.most_s);
      EXPECT_LE(time.most_s, left_s);
      EXPECT_DOUBLE_EQ(time.share_s, left_s * time_of(phase, 1).share_s);
      before_s = time.share_s;
    }
    EXPECT_EQ(time_of(phase, -3).most_s, 0) << "a budget that is over has no time";
  }
}

// Each phase takes anything up to the most that it may: more than half of the budget is left for trials unless measuring took it.
TEST(PhaseTime, WhateverTheyTakeThePhasesEndWithTheBudget) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> share(0, 1);
  for (int i = 0; i < 10000; ++i) {
    const double budget_s = 1 + 299 * share(random);
    double left_s = budget_s;
    for (const Phase phase : {Phase::check, Phase::measure, Phase::search}) {
      const PhaseTime time = time_of(phase, left_s);
      left_s -= (phase == Phase::measure ? time.share_s : time.most_s) * share(random);
    }
    EXPECT_GE(left_s, 0.5 * budget_s);
    left_s = budget_s;
    for (const Phase phase : kPhases) left_s -= time_of(phase, left_s).most_s * share(random);
    EXPECT_GE(left_s, 0);
  }
}

TEST(PhaseTime, WithoutAResultTheEndIsWithinATenthOfTheBudget) {
  for (const double budget_s : {1.0, 10.0, 30.0, 300.0}) {
    EXPECT_GT(grace_without_result(budget_s), 0);
    EXPECT_LE(grace_without_result(budget_s), 0.05 * budget_s) << "the other half is for the message";
    EXPECT_LE(grace_without_result(budget_s), 1);
  }
}

/// Whether a run with this budget, in which the check takes all that it may, gets to both trials and six rounds of a last series.
bool answers(double budget_s, double measure_s, const AnswerNeeds& needs) {
  double left_s = budget_s - needs.worker_s;
  left_s -= time_of(Phase::check, left_s).share_s;
  left_s -= measure_s;
  left_s -= time_of(Phase::search, left_s).share_s;
  const TrialTimes times(needs.worker_s);
  left_s -= times.trial_s(needs.baseline_step_s) + times.trial_s(needs.plan_step_s);
  return left_s >= times.series_s({needs.baseline_step_s, needs.plan_step_s}, 6);
}

TEST(EnoughForAnswer, IsEnoughAndNotMuchMoreThanTheSmallestThatIs) {
  for (const double worker_s : {0.1, 1.0, 8.0})
    for (const double measure_s : {0.0, 2.0, 50.0})
      for (const double step_s : {0.001, 0.2, 5.0, 90.0})
        for (const double faster : {1.0, 0.5, 0.1}) {
          const AnswerNeeds needs{
              .ready_s = worker_s + measure_s, .worker_s = worker_s, .baseline_step_s = step_s, .plan_step_s = faster * step_s};
          const double enough_s = enough_for_answer(needs);
          EXPECT_TRUE(answers(enough_s, measure_s, needs)) << enough_s;
          double least_s = 0;  // by trying
          while (!answers(least_s, measure_s, needs)) least_s += 0.01 * enough_s;
          EXPECT_LE(enough_s, 1.5 * least_s) << "as said: a half more";
        }
}

TEST(EnoughForAnswer, NothingIsSaidOfUnknownSteps) {
  EXPECT_EQ(enough_for_answer({}), 0);
  EXPECT_EQ(enough_for_answer({.ready_s = 3, .worker_s = 1, .baseline_step_s = 2}), 0);
}

TEST(NeedsOfPass, AStepIsThePassOfAllSamples) {
  const AnswerNeeds needs = needs_of_pass(2, 5, 32, 4, 1.5);
  EXPECT_DOUBLE_EQ(needs.baseline_step_s, 80);
  EXPECT_DOUBLE_EQ(needs.plan_step_s, 20) << "at best the devices share it evenly";
  EXPECT_DOUBLE_EQ(needs.ready_s, 2 * 1.5 + 7 * 5) << "the least that is measured";
  EXPECT_GT(enough_for_answer(needs), needs.ready_s + 3 * 80);
}

}  // namespace
}  // namespace mptune::tuner
