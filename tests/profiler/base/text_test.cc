#include "profiler/base/text.h"

#include <gtest/gtest.h>

namespace mptune::testing {
namespace {

TEST(ComparedTime, IsAPercentageBelowTwiceAndAFactorFromThereOn) {
  EXPECT_EQ(compared_time(1.06, 0), "6 % slower");
  EXPECT_EQ(compared_time(0.94, 0), "6 % faster");
  EXPECT_EQ(compared_time(1.013, 1), "1.3 % slower");
  EXPECT_EQ(compared_time(1.994, 0), "99 % slower");
  EXPECT_EQ(compared_time(2, 0), "2.0x the step time");
  EXPECT_EQ(compared_time(3.36, 1), "3.4x the step time");
}

using Parts = std::vector<std::string>;

TEST(Split, KeepsEmptyParts) {
  EXPECT_EQ(split("a,bc,d", ','), (Parts{"a", "bc", "d"}));
  EXPECT_EQ(split("", ','), (Parts{""}));
  EXPECT_EQ(split(",a,", ','), (Parts{"", "a", ""}));
  EXPECT_EQ(split("3x4", ','), (Parts{"3x4"}));
}

TEST(Integer, IsTheWholeText) {
  EXPECT_EQ(integer("0"), 0);
  EXPECT_EQ(integer("042"), 42);
  EXPECT_EQ(integer("-7"), -7);
  EXPECT_EQ(integer("9223372036854775807"), 9223372036854775807);
  for (const char* text : {"", "-", "--1", "+1", " 1", "1 ", "1.0", "1e3", "0x10", "a", "9223372036854775808"})
    EXPECT_FALSE(integer(text)) << text;
}

TEST(UtcText, IsUtc) {
  using Clock = std::chrono::system_clock;
  EXPECT_EQ(utc_text(Clock::from_time_t(0)), "1970-01-01T00:00:00Z");
  EXPECT_EQ(utc_text(Clock::from_time_t(1'795'262'399)), "2026-11-21T11:59:59Z");
}

}  // namespace
}  // namespace mptune::testing
