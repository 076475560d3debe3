#include "planner/partition/range_minimum.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>

namespace mptune::planner {
namespace {

std::vector<std::int64_t> random_values(std::mt19937& random, int count) {
  std::uniform_int_distribution<std::int64_t> value(-9, 9);
  std::vector<std::int64_t> values(as_index(count));
  for (std::int64_t& v : values) v = value(random);
  return values;
}

TEST(RangeMinimum, FindsWhatALookAtEveryValueFinds) {
  std::mt19937 random(1);
  RangeMinimum<std::int64_t> minimum;
  for (int count = 1; count <= 40; ++count) {
    const std::vector<std::int64_t> values = random_values(random, count);
    const int begin = count % 7;  // the first place
    minimum.assign(begin, values);
    for (int from = 0; from < count; ++from) {
      for (int to = from; to < count; ++to) {
        int least = from;
        for (int i = from; i <= to; ++i)
          if (values[as_index(i)] < values[as_index(least)]) least = i;
        ASSERT_EQ(minimum.least(begin + from, begin + to), begin + least) << count << " values, " << from << " to " << to;
        for (const std::int64_t limit : {-20, -9, -3, 0, 5, 20}) {
          int first = -1;
          int last = -1;
          for (int i = from; i <= to; ++i) {
            if (values[as_index(i)] > limit) continue;
            first = first < 0 ? begin + i : first;
            last = begin + i;
          }
          ASSERT_EQ(minimum.first_at_most(begin + from, begin + to, limit), first)
              << count << " values, " << from << " to " << to << ", limit " << limit;
          ASSERT_EQ(minimum.last_at_most(begin + from, begin + to, limit), last)
              << count << " values, " << from << " to " << to << ", limit " << limit;
        }
      }
    }
  }
}

TEST(RangeMinimum, OfNoRangeIsNothing) {
  RangeMinimum<std::int64_t> minimum;
  minimum.assign(0, {5, 1});
  EXPECT_EQ(minimum.first_at_most(2, 1, 9), -1);
  EXPECT_EQ(minimum.last_at_most(2, 1, 9), -1);
}

TEST(LoweredRanges, HoldWhatLoweringEveryPlaceHolds) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 300; ++trial) {
    const int count = 1 + static_cast<int>(random() % 50);
    std::vector<std::int64_t> expected(as_index(count), 100);
    const int begin = trial % 5;  // the first place
    LoweredRanges<std::int64_t> lowered(begin, as_index(count), 100);
    for (auto ranges = random() % 20; ranges > 0; --ranges) {
      const int from = static_cast<int>(random() % as_index(count));
      const int to = from + static_cast<int>(random() % as_index(count - from));
      const auto value = static_cast<std::int64_t>(random() % 90);
      lowered.lower(begin + from, begin + to, value);
      for (int i = from; i <= to; ++i) expected[as_index(i)] = std::min(expected[as_index(i)], value);
    }
    EXPECT_EQ(std::move(lowered).values(), expected);
  }
}

}  // namespace
}  // namespace mptune::planner
