#include "profiler/trace/values/process_overlap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace mptune::profiler {
namespace {

TEST(OverlappingBetweenProcesses, IsWhatASlowCountFinds) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<ProcessWork> works;
    for (int i = 0; i < 30; ++i) {
      const std::int64_t start = static_cast<std::int64_t>(random() % 300);
      works.push_back(
          {static_cast<std::int64_t>(random() % 3), {Nanoseconds{start}, Nanoseconds{start + static_cast<std::int64_t>(random() % 12)}}});
    }
    std::int64_t expected = 0;
    for (const ProcessWork& a : works)
      expected += std::ranges::any_of(works, [&](const ProcessWork& b) {
        const bool has_length = b.time.start < b.time.end;
        return a.process != b.process && has_length && a.time.start < b.time.end && b.time.start < a.time.end;
      });
    EXPECT_EQ(overlapping_between_processes(works), expected) << round;
  }
}

}  // namespace
}  // namespace mptune::profiler
