#include "profiler/trace/statistics/stopping.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace mptune::profiler {
namespace {

TEST(WarmUp, IsNothingInSteadyOrFewValues) {
  EXPECT_EQ(warm_up_length({}), 0);
  EXPECT_EQ(warm_up_length(std::vector<double>{9, 1, 1}), 0);
  EXPECT_EQ(warm_up_length(std::vector<double>(20, 0.1 + 0.2)), 0);
}

TEST(WarmUp, DropsASlowStartOfKnownLength) {
  std::mt19937 random(1);
  std::normal_distribution<double> noise(0, 0.01);
  for (int slow = 1; slow <= 6; ++slow) {
    for (int repeat = 0; repeat < 50; ++repeat) {
      std::vector<double> values;
      for (int i = 0; i < 20; ++i) values.push_back((i < slow ? 1.5 : 1.0) + noise(random));
      const int length = warm_up_length(values);
      EXPECT_GE(length, slow);
      EXPECT_LE(length, 10);
    }
  }
}

TEST(WarmUp, IsAtMostHalf) {
  const std::vector<double> falling{8, 7, 6, 5, 1, 1, 1, 1};
  EXPECT_EQ(warm_up_length(falling), 4);
}

TEST(WarmUp, KeepsAFasterStart) {
  EXPECT_EQ(warm_up_length(std::vector<double>{1, 1, 2, 2, 2, 2}), 0);
}

TEST(ShouldStop, ObeysItsLimits) {
  const StoppingRule rule{.least = 3, .most = 5, .relative_width = 0.01};
  EXPECT_FALSE(should_stop({}, rule));
  EXPECT_FALSE(should_stop(samples_of({1, 1}), rule));
  EXPECT_TRUE(should_stop(samples_of({1, 1, 1}), rule));
  EXPECT_FALSE(should_stop(samples_of({1, 1.5, 2}), rule));
  EXPECT_TRUE(should_stop(samples_of({1, 1.5, 2, 1, 3}), rule));
}

TEST(ShouldStop, EstimatesAKnownMedianWithinItsWidth) {
  std::mt19937 random(4);
  std::normal_distribution<double> law(1, 0.02);
  const StoppingRule rule{.least = 6, .most = 1000, .relative_width = 0.01};
  int within = 0;
  for (int repeat = 0; repeat < 200; ++repeat) {
    Samples samples;
    while (!should_stop(samples, rule)) samples.values.push_back({.value = law(random)});
    EXPECT_LT(samples.size(), 1000u);
    within += std::abs(median(samples) - 1) < 0.01;
  }
  EXPECT_GE(within, 190);
}

}  // namespace
}  // namespace mptune::profiler
