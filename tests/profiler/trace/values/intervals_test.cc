#include "profiler/trace/values/intervals.h"
#include "profiler/base/index.h"

#include <gtest/gtest.h>

#include <bitset>
#include <random>

namespace mptune::profiler {
namespace {

constexpr int kTime = 64;
using Cover = std::bitset<kTime>;  // nanosecond t is covered

std::vector<TimeInterval> random_intervals(std::mt19937& random) {
  std::vector<TimeInterval> intervals(random() % 12);
  for (TimeInterval& i : intervals) {
    i.start = Nanoseconds{random() % kTime};
    i.end = i.start + Nanoseconds{random() % static_cast<unsigned>(kTime - i.start.count() + 1)};
  }
  return intervals;
}

Cover cover(const std::vector<TimeInterval>& intervals) {
  Cover result;
  for (const TimeInterval& i : intervals)
    for (auto t = i.start.count(); t < i.end.count(); ++t) result.set(as_index(t));
  return result;
}

void expect_merged(const std::vector<TimeInterval>& intervals) {
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    EXPECT_LT(intervals[i].start, intervals[i].end);
    if (i > 0) {
      EXPECT_LT(intervals[i - 1].end, intervals[i].start);
    }
  }
}

TEST(Intervals, AgreeWithSetsOfNanoseconds) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const auto a = random_intervals(random);
    const auto merged_a = merge(a);
    const auto merged_b = merge(random_intervals(random));
    expect_merged(merged_a);
    EXPECT_EQ(cover(merged_a), cover(a));
    EXPECT_EQ(total(merged_a).count(), static_cast<std::int64_t>(cover(a).count()));
    EXPECT_EQ(cover(intersect(merged_a, merged_b)), cover(merged_a) & cover(merged_b));
    EXPECT_EQ(total(intersect(merged_a, merged_b)).count(), static_cast<std::int64_t>((cover(merged_a) & cover(merged_b)).count()));
  }
}

TEST(Intervals, ClipOfWhatDoesNotMeetIsEmpty) {
  const TimeInterval window{Nanoseconds{10}, Nanoseconds{20}};
  EXPECT_EQ(clip({Nanoseconds{5}, Nanoseconds{12}}, window), (TimeInterval{Nanoseconds{10}, Nanoseconds{12}}));
  for (const TimeInterval outside : {TimeInterval{Nanoseconds{0}, Nanoseconds{5}}, TimeInterval{Nanoseconds{25}, Nanoseconds{30}}}) {
    const TimeInterval part = clip(outside, window);
    EXPECT_EQ(part.start, part.end);
  }
}

}  // namespace
}  // namespace mptune::profiler
