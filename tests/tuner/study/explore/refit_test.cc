#include "tuner/study/explore/refit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "planner/plan/file/plan_file.h"
#include "tests/support/tuner_fakes.h"

namespace mptune::tuner {
namespace {

/// Trials of plans that differ in cuts and micro-batches, on a machine whose true times are `factors` times those of the profile.
std::vector<Trial> trials_on(const Profile& profile, const SimulatorFactors& factors, double noise, unsigned seed) {
  const Profile truth = with_factors(profile, factors);
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<Trial> trials;
  for (const int microbatches : {1, 2, 4, 8, 16}) {
    for (const int cut : {0, 3, 4, 6}) {
      Trial& trial = trials.emplace_back();
      trial.plan = testing::fake_plan(cut, microbatches);
      trial.plan_key = plan_key(trial.plan);
      trial.prediction = predict(trial.plan, CostModel(profile, trial.plan));
      const double step_s = predict(trial.plan, CostModel(truth, trial.plan)).step_s;
      trial.outcome = Measured{samples_of({step_s * std::exp(noise * normal(random))}), {}, 1};
    }
  }
  return trials;
}

Profile profile_with_dear_actions() {
  Profile profile = testing::fake_profile({});
  for (DeviceClass& device_class : profile.classes) device_class.action_seconds = 5e-4;
  for (LinkCost& link : profile.links) link.latency_s = 4e-3;
  return profile;
}

TEST(Refit, FindsTheFactors) {
  const Profile profile = profile_with_dear_actions();
  const auto fitted = refit(profile, trials_on(profile, {1.05, 1.8, 1.4}, 0, 1));
  ASSERT_TRUE(fitted);
  EXPECT_NEAR(fitted->factors.compute, 1.05, 0.01);
  EXPECT_NEAR(fitted->factors.action, 1.8, 0.2) << "held near 1: what it moves is small here";
  EXPECT_NEAR(fitted->factors.copy, 1.4, 0.1);
  EXPECT_EQ(fitted->trials, 20);
  EXPECT_GT(fitted->error_before, 0.04);
  EXPECT_LT(fitted->error_after, 0.005);
}

TEST(Refit, LeavesAFactorAloneThatNothingTells) {
  Profile profile = testing::fake_profile({});
  for (DeviceClass& device_class : profile.classes) device_class.action_seconds = 0;
  const auto fitted = refit(profile, trials_on(profile, {1.1, 3, 1}, 0, 1));
  ASSERT_TRUE(fitted);
  EXPECT_NEAR(fitted->factors.compute, 1.1, 0.01);
  EXPECT_NEAR(fitted->factors.action, 1, 1e-6);
}

TEST(Refit, TheErrorAfterIsThatOfPlansNotFittedTo) {
  const Profile profile = profile_with_dear_actions();
  // Nothing but noise: three factors could follow it, but would predict no other plan better.
  const auto fitted = refit(profile, trials_on(profile, {}, 0.05, 3));
  ASSERT_TRUE(fitted);
  EXPECT_GT(fitted->error_after, 0.8 * fitted->error_before);
  EXPECT_NEAR(fitted->factors.compute, 1, 0.05);
}

TEST(Refit, OneOutlierHardlyMovesIt) {
  const Profile profile = profile_with_dear_actions();
  std::vector<Trial> trials = trials_on(profile, {1.05, 1, 1}, 0.005, 4);
  std::get<Measured>(trials.back().outcome).step_s.values.front().value *= 3;
  EXPECT_NEAR(refit(profile, trials)->factors.compute, 1.05, 0.02);
}

TEST(Refit, NeedsThreeMeasuredPlans) {
  const Profile profile = testing::fake_profile({});
  std::vector<Trial> trials = trials_on(profile, {}, 0, 1);
  trials.resize(3);
  EXPECT_TRUE(refit(profile, trials));
  trials.back().outcome = NonFinite{};
  EXPECT_FALSE(refit(profile, trials));
  trials.back() = trials.front();
  EXPECT_FALSE(refit(profile, trials)) << "the same plan twice";
  EXPECT_FALSE(refit(profile, {}));
}

TEST(Refit, LeavesOutPlansOnUnknownDevices) {
  const Profile profile = testing::fake_profile({});
  std::vector<Trial> trials = trials_on(profile, {}, 0, 1);
  trials.front().plan.devices.front() = "cpu:77";
  EXPECT_EQ(refit(profile, trials)->trials, 19);
}

}  // namespace
}  // namespace mptune::tuner
