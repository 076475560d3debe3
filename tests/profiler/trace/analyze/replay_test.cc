#include "profiler/trace/analyze/replay.h"
#include "profiler/base/index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>

#include "tests/support/hand_trace.h"

namespace mptune::profiler {
namespace {

// Edges follow a random order of the events, so that indices do not decide their direction.
Trace random_graph(std::mt19937& random, std::vector<Nanoseconds>& durations) {
  Trace trace = testing::random_trace(random, 2, 1 + static_cast<int>(random() % 40));
  const int count = static_cast<int>(trace.events.size());
  std::vector<int> order;
  for (int i = 0; i < count; ++i) order.push_back(i);
  std::shuffle(order.begin(), order.end(), random);
  for (int a = 0; a < count; ++a) {
    for (int b = a + 1; b < count; ++b)
      if (random() % 8 == 0) trace.edges.push_back({order[as_index(a)], order[as_index(b)], EdgeKind::data});
  }
  durations.clear();
  for (int i = 0; i < count; ++i) durations.emplace_back(random() % 50);
  return trace;
}

// Slow reference: moves starts along the edges until nothing changes.
std::vector<Nanoseconds> fixed_point(const Trace& trace, const std::vector<Nanoseconds>& durations) {
  std::vector<Nanoseconds> starts(trace.events.size(), Nanoseconds{0});
  for (bool moved = true; moved;) {
    moved = false;
    for (const Edge& edge : trace.edges) {
      const auto producer = as_index(edge.producer);
      const auto consumer = as_index(edge.consumer);
      if (starts[consumer] >= starts[producer] + durations[producer]) continue;
      starts[consumer] = starts[producer] + durations[producer];
      moved = true;
    }
  }
  return starts;
}

TEST(Replay, AgreesWithAFixedPoint) {
  std::mt19937 random(1);
  std::vector<Nanoseconds> durations;
  for (int round = 0; round < 300; ++round) {
    const Trace trace = random_graph(random, durations);
    const Trace replayed = replay(trace, durations);
    const std::vector<Nanoseconds> starts = fixed_point(trace, durations);
    ASSERT_EQ(replayed.events.size(), starts.size());
    for (std::size_t i = 0; i < starts.size(); ++i) {
      EXPECT_EQ(replayed.events[i].start, starts[i]);
      EXPECT_EQ(replayed.events[i].duration, durations[i]);
      EXPECT_EQ(replayed.events[i].name, trace.events[i].name);
    }
  }
}

TEST(Replay, KeepsWhatStaysTrue) {
  const Trace trace = testing::hand_trace();
  const std::vector<Nanoseconds> durations(trace.events.size(), Nanoseconds{1});
  const Trace replayed = replay(trace, durations);
  EXPECT_TRUE(replayed.simulated);
  EXPECT_EQ(replayed.devices, trace.devices);
  EXPECT_EQ(replayed.tags, trace.tags);
  EXPECT_EQ(replayed.copies, trace.copies);
  EXPECT_EQ(replayed.edges, trace.edges);
  EXPECT_TRUE(replayed.ranges.empty() && replayed.launches.empty() && replayed.memory.empty() && replayed.steps.empty());
}

TEST(Replay, RefusesInvalidEdgesAndDurations) {
  Trace trace = testing::hand_trace();
  std::vector<Nanoseconds> durations(trace.events.size(), Nanoseconds{1});
  trace.edges = {{0, 1, EdgeKind::data}, {1, 2, EdgeKind::data}, {2, 0, EdgeKind::data}};
  EXPECT_THROW((void)replay(trace, durations), std::invalid_argument);
  trace.edges = {{0, 1000, EdgeKind::data}};
  EXPECT_THROW((void)replay(trace, durations), std::invalid_argument);
  trace.edges = {{-1, 0, EdgeKind::data}};
  EXPECT_THROW((void)replay(trace, durations), std::invalid_argument);
  trace.edges.clear();
  durations.pop_back();
  EXPECT_THROW((void)replay(trace, durations), std::invalid_argument);
}

}  // namespace
}  // namespace mptune::profiler
