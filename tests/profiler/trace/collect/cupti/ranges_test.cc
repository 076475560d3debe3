#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "profiler/trace/store/store.h"
#include "tests/profiler/trace/collect/cupti/trace_checks.h"
#include "tests/support/files.h"

namespace mptune::testing {
using namespace profiler;
namespace {

using ::testing::ElementsAre;

TEST(CuptiTrace, MarkersBecomeRanges) {
  HandBuffer buffer;
  buffer.add(kernel({10, 20, 1}, "k")).add(launch(5, 1, 11));
  buffer.add(marker(30, 1, nullptr, CUPTI_ACTIVITY_FLAG_MARKER_END)).add(marker(2, 1, "outer", CUPTI_ACTIVITY_FLAG_MARKER_START));
  buffer.add(marker(4, 2, "open", CUPTI_ACTIVITY_FLAG_MARKER_START))
      .add(marker(6, 3, "mark", CUPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS, 50));
  const Trace trace = trace_of(buffer);
  EXPECT_THAT(names_of(trace, trace.ranges), ElementsAre("outer", "open", "mark"));
  EXPECT_EQ(trace.ranges[0].duration.count(), 28);
  EXPECT_EQ(trace.ranges[0].device, 0);
  EXPECT_EQ(trace.ranges[0].kind, EventKind::action);
  EXPECT_EQ(trace.ranges[1].end().count(), 30);
  EXPECT_EQ(trace.ranges[2].duration.count(), 0);
  EXPECT_EQ(trace.ranges[2].device, -1);
}

TEST(CuptiTrace, RangesSayTheirDomainAndPayload) {
  HandBuffer buffer;
  const auto start = CUPTI_ACTIVITY_FLAG_MARKER_START;
  buffer.add(marker_data(1, CUPTI_METRIC_VALUE_KIND_INT64, {.metricValueInt64 = -7})).add(marker(1, 1, "step", start));
  buffer.add(marker(2, 2, "all reduce", start, 12, "NCCL"))
      .add(marker_data(2, CUPTI_METRIC_VALUE_KIND_UINT64, {.metricValueUint64 = 1ULL << 63}));
  buffer.add(marker(3, 3, "loss", start)).add(marker_data(3, CUPTI_METRIC_VALUE_KIND_DOUBLE, {.metricValueDouble = 0.25}));
  buffer.add(marker(4, 4, "red", start)).add(marker_data(4, CUPTI_METRIC_VALUE_KIND_DOUBLE, {.metricValueDouble = 0}));
  buffer.add(marker(5, 5, nullptr, start, 11, "unnamed"));
  const Trace trace = trace_of(buffer);
  EXPECT_THAT(names_of(trace, trace.ranges),
              ElementsAre("step [-7]", "NCCL:all reduce [9223372036854775808]", "loss [0.25]", "red", "unnamed:"));
}

TEST(CuptiTrace, RangesCrossEachOtherAndEndOnOtherThreads) {
  HandBuffer buffer;
  buffer.add(kernel({10, 90, 1}, "k")).add(launch(5, 1, 11));
  buffer.add(marker(1, 1, "first", CUPTI_ACTIVITY_FLAG_MARKER_START, 11))
      .add(marker(20, 2, "second", CUPTI_ACTIVITY_FLAG_MARKER_START, 12));
  buffer.add(marker(30, 1, nullptr, CUPTI_ACTIVITY_FLAG_MARKER_END, 12)).add(marker(40, 3, "open", CUPTI_ACTIVITY_FLAG_MARKER_START, 11));
  buffer.add(marker(50, 2, nullptr, CUPTI_ACTIVITY_FLAG_MARKER_END, 11));
  const Trace trace = trace_of(buffer);
  ASSERT_THAT(names_of(trace, trace.ranges), ElementsAre("first", "second", "open"));
  EXPECT_EQ(trace.ranges[0].end().count(), 30);
  EXPECT_EQ(trace.ranges[0].device, 0);
  EXPECT_EQ(trace.ranges[1].end().count(), 50);
  EXPECT_EQ(trace.ranges[1].device, -1) << "its thread started no work";
  EXPECT_EQ(trace.ranges[2].end().count(), 90) << "with the last work";
}

/// Random work on two devices, several streams each, with everything that can go wrong now and then.
HandBuffer random_buffer(std::mt19937& random, int count) {
  HandBuffer buffer;
  const auto upto = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  std::uint64_t time = 1000;
  for (std::uint32_t i = 1; i <= static_cast<std::uint32_t>(count); ++i) {
    time += upto(20);
    const std::uint32_t device = upto(2);
    Ran ran{time + upto(30), 0, i, device, device + 1, 7 + upto(4)};
    ran.end = ran.start + upto(60);
    if (upto(50) == 0) ran.start = ran.end = 0;
    if (upto(20) != 0) buffer.add(launch(time, i, 11 + upto(3)));
    const std::uint32_t what = upto(8);
    if (what == 0) buffer.add(copy(ran, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, 8));
    if (what == 1) buffer.add(peer_copy(ran, device, 1 - device, 8));
    if (what == 2) buffer.add(memset_record(ran));
    if (what == 3) buffer.add(event_record(i, i / 2 + 1, device + 1, ran.stream));
    if (what == 4) buffer.add(stream_wait(i, i / 2, device + 1, ran.stream));
    if (what >= 5) buffer.add(kernel(ran, "k"));
  }
  return buffer;
}

TEST(CuptiTrace, RandomRecordsMakeAConsistentTraceThatRoundTrips) {
  std::mt19937 random(20);
  const TestFolder folder("cupti");
  const std::string path = folder.path("t.sqlite");
  for (int round = 0; round < 20; ++round) {
    HandBuffer buffer = random_buffer(random, 300);
    const Trace trace = trace_of(buffer, {.origin = Nanoseconds{1000}, .started_utc_ns = 1'700'000'000'000'000'000});
    EXPECT_GT(trace.events.size(), 150U);
    profiler::write_recording({.trace = trace}, path, true);
    const Trace read = profiler::read_recording(path).trace.value();
    EXPECT_EQ(read.events, trace.events);
    EXPECT_EQ(read.launches, trace.launches);
    EXPECT_EQ(read.edges, trace.edges);
    EXPECT_EQ(read.quality, trace.quality);
  }
}

}  // namespace
}  // namespace mptune::testing
