#include "profiler/trace/values/overruns.h"

#include <gmock/gmock.h>

#include <optional>
#include <random>
#include <tuple>

namespace mptune::profiler {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TimedRecord stamped(std::int64_t start_us, std::int64_t end_us, std::int64_t call, int stream = 0) {
  return {.start = Nanoseconds{1'000 * start_us}, .end = Nanoseconds{1'000 * end_us}, .call = call, .stream = stream};
}

//   stream 0   [ 0 ]  [ 1                    ]
//                         [ 2 ]  [ 3 ]
TEST(Overruns, ARecordThatRunsOnWhileOthersRun) {
  EXPECT_THAT(overruns({stamped(0, 10, 1), stamped(20, 100, 2), stamped(30, 40, 3), stamped(50, 60, 4)}), ElementsAre(Overrun{1, 2, true}));
  EXPECT_THAT(overruns({stamped(0, 50, 1), stamped(30, 90, 2)}), ElementsAre(Overrun{0, 1, false})) << "it ends first";
  EXPECT_THAT(overruns({stamped(0, 50, 1), stamped(0, 90, 2)}), ElementsAre(Overrun{1, 0, true})) << "the longer of two that start at once";
}

TEST(Overruns, NeighboursMayTouch) {
  EXPECT_THAT(overruns({stamped(0, 10, 1), stamped(10, 20, 2)}), IsEmpty());
  TimedRecord late = stamped(0, 10, 1);
  late.end += Nanoseconds{27};
  EXPECT_THAT(overruns({late, stamped(10, 20, 2)}), IsEmpty());
  late.end = Nanoseconds{10'000} + kStampTolerance;
  EXPECT_THAT(overruns({late, stamped(10, 20, 2)}), IsEmpty());
  late.end += Nanoseconds{1};
  EXPECT_THAT(overruns({late, stamped(10, 20, 2)}), ElementsAre(Overrun{0, 1, false}));
}

TEST(Overruns, WhatMayOverlap) {
  EXPECT_THAT(overruns({stamped(0, 90, 5), stamped(10, 20, 5)}), IsEmpty()) << "nodes of one graph";
  EXPECT_THAT(overruns({stamped(0, 90, 1, 0), stamped(10, 20, 2, 1)}), IsEmpty()) << "two streams";
  EXPECT_THAT(overruns({stamped(0, 90, 1, -1), stamped(10, 20, 2, -1)}), IsEmpty()) << "waits";
  EXPECT_THAT(overruns({stamped(0, 90, 1), stamped(10, 10, 2)}), IsEmpty()) << "a record without length";
}

TEST(Overruns, AreWrongUnlessTheNextMayBeginEarly) {
  const Overrun partly{0, 1, false};
  const Overrun wholly{0, 1, true};
  for (const char* call : {"cudaLaunchKernel_v7000", "hipLaunchKernel", "cudaMemcpyAsync", "cuLaunchKernel"}) {
    EXPECT_TRUE(is_wrong(partly, call)) << call;
    EXPECT_TRUE(is_wrong(wholly, call)) << call;
  }
  for (const char* call : {"cudaLaunchKernelExC_v11060", "cuLaunchKernelEx"}) {
    EXPECT_FALSE(is_wrong(partly, call)) << call;
    EXPECT_TRUE(is_wrong(wholly, call)) << call;
  }
  EXPECT_FALSE(is_wrong(wholly, "cudaGraphLaunch_v10000"));
  EXPECT_FALSE(is_wrong(partly, "")) << "nobody knows how the next was launched";
  EXPECT_TRUE(is_wrong(wholly, ""));
}

// Slow reference: for each record the first other one that follows it on its stream, of all pairs.
std::vector<Overrun> pair_by_pair(const std::vector<TimedRecord>& records) {
  const auto key = [&](std::size_t i) { return std::tuple(records[i].start, -records[i].end, i); };
  std::vector<Overrun> found;
  for (std::size_t a = 0; a < records.size(); ++a) {
    std::optional<std::size_t> next;
    for (std::size_t b = 0; b < records.size(); ++b) {
      const bool follows = records[b].stream == records[a].stream && key(a) < key(b) && records[b].start < records[b].end;
      const bool apart = records[b].call != records[a].call || records[a].call <= 0;
      if (follows && apart && (!next || key(b) < key(*next))) next = b;
    }
    if (records[a].stream < 0 || records[a].start == records[a].end || !next) continue;
    const TimedRecord& other = records[*next];
    if (records[a].end - other.start > kStampTolerance) found.push_back({a, *next, records[a].end - other.end > kStampTolerance});
  }
  return found;
}

TEST(Overruns, AgreeWithEveryPair) {
  std::mt19937 random(45);
  const auto draw = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  for (int round = 0; round < 300; ++round) {
    std::vector<TimedRecord> records;
    // A call launches records in a row, as a graph does, or one.
    for (int call = 1; call <= 12; ++call) {
      const int first = 40 * draw(12);
      const int nodes = draw(4) == 0 ? 3 : 1;
      for (int node = 0; node < nodes; ++node)
        records.push_back(stamped(first + node, first + node + draw(60), draw(9) == 0 ? 0 : call, draw(2) - 1));
    }
    std::shuffle(records.begin(), records.end(), random);
    EXPECT_EQ(overruns(records), pair_by_pair(records)) << round;
  }
}

}  // namespace
}  // namespace mptune::profiler
