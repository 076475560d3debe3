#include "profiler/trace/statistics/lawful_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace mptune::profiler {
namespace {

using Times = std::vector<double>;

TEST(LawfulTimes, LawfulOnesStay) {
  EXPECT_EQ(lawful_times({1, 2, 4, 8}, {3, 5, 9, 17}), (Times{3, 5, 9, 17})) << "a fixed part and one per sample";
  EXPECT_EQ(lawful_times({2, 3}, {4, 4}), (Times{4, 4}));
  EXPECT_EQ(lawful_times({5}, {7}), (Times{7}));
  EXPECT_EQ(lawful_times({}, {}), Times{});
}

TEST(LawfulTimes, SmallerSizesTakeNoLonger) {
  EXPECT_EQ(lawful_times({1, 2, 4, 8}, {929, 990, 358, 687}), (Times{358, 358, 358, 687})) << "gelu's backward of the published GPT-350M";
}

TEST(LawfulTimes, PartsOneAfterAnotherTakeAsLong) {
  EXPECT_EQ(lawful_times({1, 2, 4}, {10, 25, 41}), (Times{10, 20, 40}));
  EXPECT_EQ(lawful_times({2, 5}, {10, 100}), (Times{10, 30})) << "three times two cover five";
  EXPECT_EQ(lawful_times({1, 3, 9}, {10, 100, 80}), (Times{10, 30, 80})) << "the first law lowers first";
}

// Both laws, one step at a time, until nothing changes.
Times by_relaxation(const std::vector<int>& sizes, Times times) {
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      for (std::size_t j = i + 1; j < sizes.size(); ++j) {
        const double covering = times[i] * std::ceil(static_cast<double>(sizes[j]) / sizes[i]);
        changed = changed || times[i] > times[j] || times[j] > covering;
        times[i] = std::min(times[i], times[j]);
        times[j] = std::min(times[j], covering);
      }
    }
  }
  return times;
}

TEST(LawfulTimes, AreTheLargestThatKeepTheLaws) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<int> sizes;
    Times times;
    for (int size = 1; size <= 12; ++size) {
      if (random() % 2 == 0) continue;
      sizes.push_back(size);
      times.push_back(static_cast<double>(1 + random() % 100));
    }
    ASSERT_EQ(lawful_times(sizes, times), by_relaxation(sizes, times)) << trial;
  }
}

}  // namespace
}  // namespace mptune::profiler
