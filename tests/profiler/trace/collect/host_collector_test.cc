#include "profiler/trace/collect/host_collector.h"
#include "profiler/base/index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

namespace mptune::testing {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<TraceDevice> two_devices() {
  return {{"cpu:0", "one", 1, 0}, {"cpu:1", "two", 1, 100}};
}

/// One micro-batch through two stages on two devices, by hand: forward, copy, forward and back again.
class OneMicrobatch {
 public:
  explicit OneMicrobatch(HostCollector& collector) : collector_(collector), origin_(Clock::now()) {}

  Clock::time_point at(int microseconds) const { return origin_ + std::chrono::microseconds(microseconds); }
  Tag tag(int stage, int layer) const { return {0, stage, 0, layer, 0}; }

  void front() {
    LaneLog& compute = collector_.lane(0, kComputeLane, "front");
    LaneLog& copies = collector_.lane(0, copy_lane(1), "front copies");
    compute.add(EventKind::forward, collector_.name("a"), tag(0, 0), at(1), at(5));
    compute.add(EventKind::forward, collector_.name("b"), tag(0, 1), at(5), at(8));
    compute.add_range(EventKind::action, collector_.name("0F0"), tag(0, -1), at(1), at(8));
    copies.add_copy(collector_.name("copy activation"), {0, 1, 0, -1, -1}, 0, {4096, 0, 1}, at(8), at(10));
    compute.add(EventKind::backward, collector_.name("b back"), tag(0, 1), at(23), at(30));
    compute.add(EventKind::host, collector_.name("unknown"), {}, at(40), at(41));
  }
  void back() {
    LaneLog& compute = collector_.lane(1, kComputeLane, "back");
    LaneLog& copies = collector_.lane(1, copy_lane(0), "back copies");
    compute.add(EventKind::forward, collector_.name("c"), tag(1, 2), at(11), at(15));
    compute.add(EventKind::backward, collector_.name("c back"), tag(1, 2), at(15), at(20));
    copies.add_copy(collector_.name("copy gradient"), {0, 0, 0, -1, -1}, 1, {512, 1, 0, true}, at(20), at(22));
    compute.add(EventKind::optimizer, collector_.name("late"), {0, 1, -1, -1, 0}, at(99), at(101));
  }

 private:
  HostCollector& collector_;
  Clock::time_point origin_;
};

Trace record_one(HostCollector& collector) {
  collector.start();
  OneMicrobatch work(collector);
  std::thread front([&] { work.front(); }), back([&] { work.back(); });
  front.join();
  back.join();
  collector.add_step(0, work.at(0), work.at(100));
  collector.add_memory(1, 777);
  return collector.stop();
}

std::string name_of(const Trace& trace, int event) {
  return trace.names.at(as_index(trace.events.at(as_index(event)).name));
}

std::set<std::pair<std::string, std::string>> edges_of(const Trace& trace, EdgeKind kind) {
  std::set<std::pair<std::string, std::string>> edges;
  for (const Edge& edge : trace.edges)
    if (edge.kind == kind) edges.emplace(name_of(trace, edge.producer), name_of(trace, edge.consumer));
  return edges;
}

TEST(HostCollector, PutsTheLanesOfAllThreadsTogetherInOrder) {
  HostCollector collector(two_devices());
  const Trace trace = record_one(collector);
  EXPECT_EQ(trace.devices, two_devices());
  std::vector<std::string> order;
  for (int i = 0; i < static_cast<int>(trace.events.size()); ++i) order.push_back(name_of(trace, i));
  EXPECT_THAT(order, ::testing::ElementsAre("a", "b", "copy activation", "c", "c back", "copy gradient", "b back", "unknown", "late"));
  const auto begin = trace.events[0].start;
  const std::vector<int> starts{0, 4, 7, 10, 14, 19, 22, 39, 98}, durations{4, 3, 2, 4, 5, 2, 7, 1, 2}, devices{0, 0, 0, 1, 1, 1, 0, 0, 1};
  for (std::size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(trace.events[i].start - begin, std::chrono::microseconds(starts[i])) << order[i];
    EXPECT_EQ(trace.events[i].duration, std::chrono::microseconds(durations[i])) << order[i];
    EXPECT_EQ(trace.events[i].device, devices[i]) << order[i];
  }
  EXPECT_EQ(trace.events[2].lane, copy_lane(1));
  EXPECT_EQ(trace.events[5].lane, copy_lane(0));
  EXPECT_EQ(trace.copies.at(as_index(trace.events[2].detail)), (Copy{4096, 0, 1}));
  EXPECT_EQ(trace.copies.at(as_index(trace.events[5].detail)), (Copy{512, 1, 0, true}));
  ASSERT_EQ(trace.ranges.size(), 1U);
  EXPECT_EQ(trace.ranges[0].duration, std::chrono::microseconds(7));
  ASSERT_EQ(trace.steps.size(), 1U);
  EXPECT_EQ(trace.steps[0].end - trace.steps[0].start, std::chrono::microseconds(100));
  EXPECT_EQ(trace.events[0].start - trace.steps[0].start, std::chrono::microseconds(1));
  ASSERT_EQ(trace.memory.size(), 1U);
  EXPECT_EQ(trace.memory[0].current_bytes, 777);
  EXPECT_GT(trace.started_utc_ns, 0);
}

TEST(HostCollector, StoresEveryTagOnce) {
  HostCollector collector(two_devices());
  const Trace trace = record_one(collector);
  for (std::size_t i = 0; i < trace.tags.size(); ++i) {
    EXPECT_NE(trace.tags[i], Tag{});
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(trace.tags[i], trace.tags[j]);
  }
  const OneMicrobatch work(collector);
  const auto tag_of = [&](std::size_t event) { return trace.tags.at(as_index(trace.events[event].tag)); };
  EXPECT_EQ(tag_of(0), work.tag(0, 0));
  EXPECT_EQ(tag_of(1), work.tag(0, 1));
  EXPECT_EQ(trace.events[6].tag, trace.events[1].tag) << "forward and backward of a layer share a tag";
  EXPECT_EQ(tag_of(3), work.tag(1, 2));
  EXPECT_EQ(trace.events[7].tag, -1);
}

TEST(HostCollector, EdgesFollowLanesAndData) {
  HostCollector collector(two_devices());
  const Trace trace = record_one(collector);
  EXPECT_THAT(edges_of(trace, EdgeKind::order),
              ::testing::UnorderedElementsAre(std::pair("a", "b"), std::pair("b", "b back"), std::pair("b back", "unknown"),
                                              std::pair("c", "c back"), std::pair("c back", "late")));
  EXPECT_THAT(edges_of(trace, EdgeKind::data),
              ::testing::UnorderedElementsAre(std::pair("b", "copy activation"), std::pair("copy activation", "c"),
                                              std::pair("c back", "copy gradient"), std::pair("copy gradient", "b back"),
                                              // The update waits for the other device's last action, not for work outside of actions.
                                              std::pair("b back", "late")));
}

/// Two branches, each a stage on a device of its own, and a head that reads both.
TEST(HostCollector, AStageThatGetsSeveralCopiesHasAnEdgeFromEach) {
  HostCollector collector({{"cpu:0", "one", 1, 0}, {"cpu:1", "two", 1, 0}, {"cpu:2", "three", 1, 0}});
  collector.start();
  const auto origin = Clock::now();
  const auto at = [&](int microseconds) { return origin + std::chrono::microseconds(microseconds); };
  const auto tag = [](int stage, int microbatch) { return Tag{0, stage, microbatch, stage, 0}; };
  for (int m = 0; m < 2; ++m) {
    const auto name = [&](const std::string& what) { return collector.name(what + " " + std::to_string(m)); };
    for (int branch = 0; branch < 2; ++branch) {
      const std::string of = " of " + std::to_string(branch);
      LaneLog& compute = collector.lane(branch, kComputeLane, "compute" + of);
      compute.add(EventKind::forward, name("forward" + of), tag(branch, m), at(100 * m), at(100 * m + 5));
      compute.add(EventKind::backward, name("backward" + of), tag(branch, m), at(100 * m + 60), at(100 * m + 70));
      LaneLog& out = collector.lane(branch, copy_lane(2), "out" + of);
      out.add_copy(name("copy" + of), {0, 2, m, -1, -1}, branch, {64, branch, 2}, at(100 * m + 10 + branch), at(100 * m + 20));
      LaneLog& back = collector.lane(2, copy_lane(branch), "back" + of);
      back.add_copy(name("gradient" + of), {0, branch, m, -1, -1}, 2, {64, 2, branch, true}, at(100 * m + 50), at(100 * m + 55));
    }
    LaneLog& head = collector.lane(2, kComputeLane, "head");
    head.add(EventKind::forward, name("forward of head"), tag(2, m), at(100 * m + 21), at(100 * m + 30));
    head.add(EventKind::backward, name("backward of head"), tag(2, m), at(100 * m + 30), at(100 * m + 40));
  }
  collector.add_step(0, at(0), at(200));
  std::set<std::pair<std::string, std::string>> expected;
  for (const std::string m : {" 0", " 1"})
    for (const std::string branch : {" of 0", " of 1"}) {
      expected.emplace("forward" + branch + m, "copy" + branch + m);
      expected.emplace("copy" + branch + m, "forward of head" + m);
      expected.emplace("backward of head" + m, "gradient" + branch + m);
      expected.emplace("gradient" + branch + m, "backward" + branch + m);
    }
  EXPECT_EQ(edges_of(collector.stop(), EdgeKind::data), expected);
}

TEST(HostCollector, ParametersTakenBeforeTheFirstActionWaitForNoOtherDevice) {
  HostCollector collector(two_devices());
  collector.start();
  const auto origin = Clock::now();
  const auto at = [&](int microseconds) { return origin + std::chrono::microseconds(microseconds); };
  LaneLog& one = collector.lane(0, kComputeLane, "one");
  LaneLog& two = collector.lane(1, kComputeLane, "two");
  one.add(EventKind::forward, collector.name("first"), {0, 0, 0, 0, 0}, at(1), at(5));
  two.add(EventKind::reduce, collector.name("refresh"), {0, 0, -1, -1, 1}, at(2), at(3));
  two.add(EventKind::forward, collector.name("second"), {0, 0, 1, 0, 1}, at(3), at(7));
  one.add(EventKind::reduce, collector.name("sum"), {0, 0, -1, -1, 0}, at(8), at(9));
  collector.add_step(0, at(0), at(10));
  EXPECT_THAT(edges_of(collector.stop(), EdgeKind::data), ::testing::ElementsAre(std::pair("second", "sum")));
}

TEST(HostCollector, FusedWeightGradientsElsewhereWaitForAllTheirInputGradients) {
  HostCollector collector(two_devices());
  collector.start();
  const auto origin = Clock::now();
  const auto at = [&](int microseconds) { return origin + std::chrono::microseconds(microseconds); };
  LaneLog& owner = collector.lane(0, kComputeLane, "owner");
  LaneLog& helper = collector.lane(1, kComputeLane, "helper");
  for (int m = 0; m < 4; ++m)
    owner.add(EventKind::backward_input, collector.name("input " + std::to_string(m)), {0, 0, m, 0, 0}, at(10 * m), at(10 * m + 5));
  helper.add(EventKind::backward_weight, collector.name("weights 1-2"), {0, 0, 1, 0, 0}, at(26), at(27), 1);
  helper.add(EventKind::backward_weight, collector.name("weight 3"), {0, 0, 3, 0, 0}, at(36), at(37));
  owner.add(EventKind::backward_weight, collector.name("own weights 0-3"), {0, 0, 0, 0, 0}, at(36), at(37), 3);
  collector.add_step(0, at(0), at(40));
  EXPECT_THAT(edges_of(collector.stop(), EdgeKind::data),
              ::testing::UnorderedElementsAre(std::pair("input 1", "weights 1-2"), std::pair("input 2", "weights 1-2"),
                                              std::pair("input 3", "weight 3")));
}

TEST(HostCollector, CountsWhatIsUntaggedOrOutOfTheWindow) {
  HostCollector collector(two_devices());
  EXPECT_EQ(record_one(collector).quality, (TraceQuality{.dropped = 0, .untagged = 1, .out_of_window = 1}));
}

TEST(HostCollector, LaunchesAreUniqueAndSpanTheirEvents) {
  HostCollector collector(two_devices());
  const Trace trace = record_one(collector);
  ASSERT_EQ(trace.launches.size(), trace.events.size());
  std::set<std::int64_t> correlations;
  for (const Launch& launch : trace.launches) {
    const Event& event = trace.events.at(as_index(launch.event));
    EXPECT_EQ(launch.start, event.start);
    EXPECT_EQ(launch.end, event.end());
    EXPECT_GT(launch.correlation, 0);
    correlations.insert(launch.correlation);
    const std::string side = event.device == 0 ? "front" : "back";
    EXPECT_EQ(trace.threads.at(as_index(launch.thread)), event.lane == kComputeLane ? side : side + " copies");
  }
  EXPECT_EQ(correlations.size(), trace.launches.size());
}

TEST(HostCollector, RestartForgetsTheRecordingBefore) {
  HostCollector collector(two_devices());
  const Trace first = record_one(collector);
  collector.start();
  const Trace empty = collector.stop();
  EXPECT_TRUE(empty.events.empty() && empty.ranges.empty() && empty.steps.empty() && empty.memory.empty() && empty.edges.empty());
  EXPECT_EQ(empty.quality, TraceQuality{});
  const Trace second = record_one(collector);
  EXPECT_EQ(second.events.size(), first.events.size());
  EXPECT_EQ(second.tags, first.tags);
  EXPECT_EQ(second.edges, first.edges);
}

}  // namespace
}  // namespace mptune::testing
