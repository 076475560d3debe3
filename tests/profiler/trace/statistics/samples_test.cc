#include "profiler/trace/statistics/samples.h"
#include "profiler/base/index.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <stdexcept>

namespace mptune::profiler {
namespace {

TEST(Samples, MedianOfOddAndEvenCounts) {
  EXPECT_EQ(median(std::vector<double>{3, 1, 2}), 2);
  EXPECT_EQ(median(std::vector<double>{4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median(exactly(7)), 7);
  EXPECT_THROW((void)median(Samples{}), std::invalid_argument);
  EXPECT_THROW((void)range_of(Samples{}), std::invalid_argument);
}

TEST(Samples, SpreadIsTheInterquartileRangeOverTheMedian) {
  EXPECT_EQ(spread(exactly(5)), 0);
  EXPECT_DOUBLE_EQ(spread(samples_of({1, 2, 3, 4, 5})), 2.0 / 3.0);
  EXPECT_EQ(spread(samples_of({2, 2, 2})), 0);
}

TEST(Samples, RoundsCountUp) {
  const Samples samples = samples_of({5, 6});
  EXPECT_EQ(samples.values[0].round, 0);
  EXPECT_EQ(samples.values[1].round, 1);
}

// Ranks from published tables of the sign test: n, k with [k-th smallest, k-th largest]. They reach 95 %, the next inner ones do not.
TEST(Interval95, LiesBetweenTheTabulatedRanksAndTheNext) {
  const std::vector<std::pair<int, int>> table{{6, 1}, {8, 1}, {9, 2}, {10, 2}, {12, 3}, {15, 4}, {20, 6}, {25, 8}, {30, 10}, {50, 18}};
  for (const auto& [n, k] : table) {
    std::vector<double> values;
    for (int i = 1; i <= n; ++i) values.push_back(i);
    const Interval interval = interval95(values).value();
    EXPECT_GE(interval.low, k) << n;
    EXPECT_LT(interval.low, k + 1) << n;
    EXPECT_DOUBLE_EQ(interval.high, n + 1 - interval.low) << n;
  }
}

TEST(Interval95, ExistsFromSixSamplesOn) {
  EXPECT_EQ(interval95(Samples{}), std::nullopt);
  EXPECT_EQ(interval95(exactly(4)), std::nullopt);
  EXPECT_EQ(interval95(samples_of({3, 1, 2, 5, 4})), std::nullopt);
  const Interval six = interval95(samples_of({3, 1, 2, 6, 5, 4})).value();
  EXPECT_GE(six.low, 1) << "the range covers the median with 96.9 %";
  EXPECT_LT(six.low, 2) << "the next pair of order statistics with 78.1 %";
  EXPECT_DOUBLE_EQ(six.high, 7 - six.low);
  EXPECT_EQ(median_interval({3, 1, 2, 6, 5, 4}, 0.99), (Interval{1, 6})) << "no more than the range";
  EXPECT_EQ(median_interval({3, 1, 2}, 0.5), std::nullopt);
  EXPECT_EQ(range_of(samples_of({3, 1, 2})), (Interval{1, 3}));
}

TEST(Interval95, CoversTheMedianOfASkewedLaw) {
  std::mt19937 random(3);
  std::exponential_distribution<double> law(1.0);
  for (const int n : {6, 7, 11, 13, 20, 44}) {
    constexpr int kRounds = 4000;
    int covered = 0;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<double> values(as_index(n));
      for (double& value : values) value = law(random);
      const Interval interval = interval95(values).value();
      covered += interval.low <= std::log(2.0) && std::log(2.0) <= interval.high;
    }
    EXPECT_GE(covered, kRounds * 0.94) << n;
    EXPECT_LE(covered, kRounds * 0.96) << n;
  }
}

TEST(TwoModes, AreFoundWhereStepsJump) {
  const auto modes = two_modes(samples_of({1.0, 1.01, 1.3, 1.0, 1.31, 1.02, 1.3, 1.01, 1.29, 1.3}));
  ASSERT_TRUE(modes);
  EXPECT_DOUBLE_EQ(modes->low, 1.01);
  EXPECT_DOUBLE_EQ(modes->high, 1.3);
  EXPECT_DOUBLE_EQ(modes->share_high, 0.5);
  EXPECT_FALSE(two_modes(samples_of({1.0, 1.01, 1.3, 1.0, 1.31, 1.02, 1.0, 1.01, 1.0, 1.0}))) << "two slow steps are spikes";
  EXPECT_FALSE(two_modes(samples_of({1.0, 1.0, 1.0, 1.0, 1.0, 1.01, 1.01, 1.01, 1.01, 1.01}))) << "1 % matters to nobody";
  EXPECT_FALSE(two_modes(samples_of({1, 2, 1, 2, 1, 2, 1, 2, 1}))) << "too few";
  EXPECT_FALSE(two_modes(Samples{}));
}

TEST(TwoModes, AreRarelySeenInOneLaw) {
  std::mt19937 random(5);
  std::lognormal_distribution<double> law(0, 0.1);
  for (const int n : {10, 12, 20, 40}) {
    constexpr int kRounds = 2000;
    int seen = 0;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<double> values(as_index(n));
      for (double& value : values) value = law(random);
      seen += two_modes(samples_of(values)).has_value() ? 1 : 0;
    }
    EXPECT_LE(seen, kRounds * 0.05) << n;
  }
}

}  // namespace
}  // namespace mptune::profiler
