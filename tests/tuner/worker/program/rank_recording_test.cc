#include "tuner/worker/program/rank_recording.h"

#include <gtest/gtest.h>

#include "profiler/base/error.h"

namespace mptune::tuner {
namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point at(std::int64_t nanoseconds) {
  return Clock::time_point(std::chrono::duration_cast<Clock::duration>(Nanoseconds(nanoseconds)));
}

std::vector<TraceDevice> two_devices() {
  return {{"0@cpu:0", "", 0, 0}, {"1@cpu:1", "CPU core set, 1 core", 1, 100}};
}

/// What rank 1 records: its own work, and a copy of rank 0's device that it received.
HostLog log_of_rank_1() {
  HostCollector collector(two_devices());
  collector.start();
  LaneLog& compute = collector.lane(1, kComputeLane, "stage worker 1@cpu:1");
  compute.add(EventKind::backward_weight, collector.name("layer"), {3, 1, 2, 4, 0}, at(1000), at(2000), 5);
  compute.add_range(EventKind::action, collector.name("1W2"), {3, 1, 2, -1, -1}, at(900), at(2100));
  LaneLog& copies = collector.lane(0, copy_lane(1), "copies 0@cpu:0 to 1@cpu:1");
  copies.add_copy(collector.name("copy gradient"), {3, 1, 2, -1, -1}, 7, {4096, 0, 1, true, true}, at(100), at(800));
  collector.add_memory(1, 12345);
  collector.add_step(3, at(80), at(2500));
  return collector.take();
}

TEST(RankRecording, AMessageHasAllOfALog) {
  const HostLog log = log_of_rank_1();
  const HostLog read = log_from(message_of(log));
  EXPECT_EQ(read.devices, log.devices);
  EXPECT_EQ(read.names, log.names);
  ASSERT_EQ(read.lanes.size(), log.lanes.size());
  for (std::size_t l = 0; l < log.lanes.size(); ++l) {
    EXPECT_EQ(read.lanes[l].device, log.lanes[l].device);
    EXPECT_EQ(read.lanes[l].lane, log.lanes[l].lane);
    EXPECT_EQ(read.lanes[l].thread, log.lanes[l].thread);
    ASSERT_EQ(read.lanes[l].entries.size(), log.lanes[l].entries.size());
    for (std::size_t e = 0; e < log.lanes[l].entries.size(); ++e) {
      const LaneLog::Entry &a = read.lanes[l].entries[e], &b = log.lanes[l].entries[e];
      EXPECT_EQ(a.start, b.start);
      EXPECT_EQ(a.end, b.end);
      EXPECT_EQ(a.kind, b.kind);
      EXPECT_EQ(a.name, b.name);
      EXPECT_EQ(a.tag, b.tag);
      EXPECT_EQ(a.copy, b.copy);
      EXPECT_EQ(a.range, b.range);
      EXPECT_EQ(a.further, b.further);
      EXPECT_EQ(a.sender, b.sender);
    }
  }
  ASSERT_EQ(read.steps.size(), 1U);
  EXPECT_EQ(read.steps[0].step, 3);
  EXPECT_EQ(read.steps[0].start, at(80));
  EXPECT_EQ(read.steps[0].end, at(2500));
  ASSERT_EQ(read.memory.size(), 1U);
  EXPECT_EQ(read.memory[0].bytes, 12345);
}

TEST(RankRecording, AnEmptyLogAndABrokenMessage) {
  HostCollector nothing(two_devices());
  nothing.start();
  EXPECT_TRUE(log_from(message_of(nothing.take())).lanes.empty());
  Tensors message = message_of(log_of_rank_1());
  message.pop_back();
  EXPECT_THROW((void)log_from(message), Error);
  message = message_of(log_of_rank_1());
  message[3] = message[3].slice(0, 0, 17);  // fewer entries than the lanes say
  EXPECT_THROW((void)log_from(message), Error);
}

TEST(RankRecording, ACopyBeganOnItsSendersClock) {
  HostLog log = log_of_rank_1();
  RankClock first, second;
  second.since_reference.offset = Nanoseconds(1'000'000);
  set_to_first_clock(log, 1, {first, second}, {0, 1});
  EXPECT_EQ(log.lanes[0].entries[0].start, at(1'001'000));
  EXPECT_EQ(log.lanes[0].entries[0].end, at(1'002'000));
  EXPECT_EQ(log.lanes[1].entries[0].start, at(100));
  EXPECT_EQ(log.lanes[1].entries[0].end, at(1'000'800));
}

TEST(RankRecording, ACollectorTakesWhatAnotherRecorded) {
  HostCollector collector(two_devices());
  collector.start();
  collector.lane(0, kComputeLane, "stage worker 0@cpu:0").add(EventKind::forward, collector.name("first"), {3, 0, 2, 0, 0}, at(50), at(90));
  collector.add_step(3, at(40), at(2300));
  collector.add_step(4, at(2400), at(3000));
  HostLog own = collector.take();
  HostLog other = log_of_rank_1();
  // A second message was sent before the first had arrived.
  HostLog::Lane& copies = other.lanes.at(1);
  LaneLog::Entry second = copies.entries.at(0);
  second.start = at(200);
  second.end = at(950);
  copies.entries.push_back(second);
  collector.put(own);
  collector.put(other);
  const Trace trace = collector.stop();
  EXPECT_EQ(trace.devices[1].description, "CPU core set, 1 core");
  ASSERT_EQ(trace.events.size(), 4U);
  EXPECT_EQ(trace.names[static_cast<std::size_t>(trace.events[0].name)], "first");
  EXPECT_EQ(trace.events[1].duration, Nanoseconds(700));
  EXPECT_EQ(trace.events[2].start - trace.events[1].start, Nanoseconds(700));
  EXPECT_EQ(trace.events[2].duration, Nanoseconds(150));
  EXPECT_EQ(trace.memory.size(), 1U);
  EXPECT_EQ(trace.ranges.size(), 1U);
  ASSERT_EQ(trace.steps.size(), 2U);
  EXPECT_EQ(trace.steps[0].end - trace.steps[0].start, Nanoseconds(2460));
  EXPECT_EQ(trace.steps[1].start, trace.steps[0].end);
}

}  // namespace
}  // namespace mptune::tuner
