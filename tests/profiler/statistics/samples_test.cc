#include "profiler/statistics/samples.h"
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
  EXPECT_THROW((void)interval95(Samples{}), std::invalid_argument);
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

// Ranks from published tables of the sign test: n, k with [k-th smallest, k-th largest].
TEST(Interval95, UsesTheTabulatedRanks) {
  const std::vector<std::pair<int, int>> table{{6, 1}, {8, 1}, {9, 2}, {10, 2}, {12, 3}, {15, 4}, {20, 6}, {25, 8}, {30, 10}, {50, 18}};
  for (const auto& [n, k] : table) {
    std::vector<double> values;
    for (int i = 1; i <= n; ++i) values.push_back(i);
    EXPECT_EQ(interval95(values), (Interval{double(k), double(n - k + 1)})) << n;
  }
}

TEST(Interval95, IsTheRangeOfFewSamples) {
  EXPECT_EQ(interval95(samples_of({3, 1, 2})), (Interval{1, 3}));
  EXPECT_EQ(interval95(exactly(4)), (Interval{4, 4}));
}

TEST(Interval95, CoversTheMedianOfASkewedLaw) {
  std::mt19937 random(3);
  std::exponential_distribution<double> law(1.0);
  for (const int n : {6, 11, 20, 44}) {
    constexpr int kRounds = 4000;
    int covered = 0;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<double> values(as_index(n));
      for (double& value : values) value = law(random);
      const Interval interval = interval95(values);
      covered += interval.low <= std::log(2.0) && std::log(2.0) <= interval.high;
    }
    // Never under 95 % but for the simulation's own error; not wastefully wide either.
    EXPECT_GE(covered, kRounds * 0.94) << n;
    EXPECT_LE(covered, kRounds * 0.99) << n;
  }
}

}  // namespace
}  // namespace mptune::profiler
