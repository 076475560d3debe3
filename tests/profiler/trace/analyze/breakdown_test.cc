#include "profiler/trace/analyze/breakdown.h"
#include "profiler/base/index.h"
#include "profiler/trace/analyze/busy.h"
#include "profiler/trace/analyze/idle.h"

#include <gtest/gtest.h>

#include <tuple>

#include <algorithm>
#include <random>

#include "profiler/trace/analyze/quality_objection.h"
#include "tests/support/hand_trace.h"

namespace mptune::profiler {
namespace {

bool touches(const Trace& trace, const Event& event, int device) {
  if (event.kind != EventKind::copy || event.detail < 0) return event.device == device;
  const Copy& copy = trace.copies[as_index(event.detail)];
  return event.device == device || copy.source == device || copy.destination == device;
}

// Slow reference: looks at every nanosecond of the window.
DeviceBreakdown sweep(const Trace& trace, const StepWindow& window, int device) {
  DeviceBreakdown result;
  for (Nanoseconds t = window.start; t < window.end; ++t) {
    bool compute = false;
    bool copy = false;
    for (const Event& event : trace.events) {
      if (t < event.start || t >= event.end() || !touches(trace, event, device)) continue;
      compute = compute || is_compute(event.kind);
      copy = copy || event.kind == EventKind::copy;
    }
    ++result.window;
    ++(compute && copy ? result.overlap : compute ? result.compute : copy ? result.copy : result.idle);
  }
  result.causes.unexplained = result.idle;
  return result;
}

TEST(Breakdown, AgreesWithASweepOfEveryNanosecond) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    const int devices = 1 + round % 4;
    const Trace trace = testing::random_trace(random, devices, 5 + round);
    const Breakdown breakdown = break_down(trace);
    ASSERT_EQ(breakdown.steps.size(), trace.steps.size());
    for (std::size_t s = 0; s < trace.steps.size(); ++s)
      for (int d = 0; d < devices; ++d)
        EXPECT_EQ(breakdown.steps[s].devices[as_index(d)], sweep(trace, trace.steps[s], d)) << round << " " << s << " " << d;
  }
}

TEST(Breakdown, OfTheHandMadeTrace) {
  const Breakdown breakdown = break_down(testing::hand_trace());
  ASSERT_EQ(breakdown.steps.size(), 1u);
  const DeviceBreakdown& first = breakdown.steps[0].devices[0];
  EXPECT_EQ(first.window.count(), 100);
  EXPECT_EQ(first.compute.count(), 49);
  EXPECT_EQ(first.overlap.count(), 6);
  EXPECT_EQ(first.copy.count(), 5);
  EXPECT_EQ(first.idle.count(), 40);
  const DeviceBreakdown& second = breakdown.steps[0].devices[1];
  EXPECT_EQ(second.compute.count(), 50);
  EXPECT_EQ(second.copy.count(), 11);
  EXPECT_EQ(second.idle.count(), 39);
  EXPECT_DOUBLE_EQ(bubble(breakdown), 79.0 / 200.0);
}

TEST(Breakdown, WithoutStepsSpansAllEvents) {
  Trace trace = testing::hand_trace();
  trace.steps.clear();
  const Breakdown breakdown = break_down(trace);
  ASSERT_EQ(breakdown.steps.size(), 1u);
  EXPECT_EQ(breakdown.steps[0].devices[0].window.count(), 100);
  EXPECT_TRUE(break_down(Trace{}).steps.empty());
  EXPECT_EQ(bubble(Breakdown{}), 0);
}

// Slow reference: first start and last end of computing, copies and ranges of steps.
TEST(Breakdown, WithoutStepsTheWindowIsThatOfTheDevicesWork) {
  std::mt19937 random(45);
  for (int round = 0; round < 40; ++round) {
    Trace trace = testing::random_trace(random, 1 + round % 3, 20);
    trace.steps.clear();
    trace.ranges.clear();
    const auto draw = [&](int most) { return Nanoseconds{std::uniform_int_distribution<int>(0, most)(random)}; };
    for (const EventKind kind : {EventKind::profiler, EventKind::sync, EventKind::host})
      trace.events.push_back({.start = draw(9'000) - Nanoseconds{4'000}, .duration = draw(900), .lane = 9, .kind = kind});
    std::ranges::stable_sort(trace.events, {}, &Event::start);
    trace.edges.clear();
    trace.launches.clear();
    if (round % 2 == 0) trace.ranges.push_back({.start = draw(500), .duration = draw(900), .device = -1, .kind = EventKind::step});
    Nanoseconds first = Nanoseconds::max(), last = Nanoseconds::min();
    std::vector<Event> counted = trace.events;
    std::erase_if(counted, [](const Event& event) { return event.kind != EventKind::copy && !is_compute(event.kind); });
    counted.insert(counted.end(), trace.ranges.begin(), trace.ranges.end());
    for (const Event& event : counted) {
      first = std::min(first, event.start);
      last = std::max(last, event.end());
    }
    EXPECT_EQ(break_down(trace).steps.at(0).devices.at(0).window, last - first) << round;
  }
}

TEST(Breakdown, WaitsAloneSpanTheirOwnWindow) {
  Trace trace;
  trace.devices.emplace_back();
  trace.names = {"sync"};
  trace.events.push_back({.start = Nanoseconds{5}, .duration = Nanoseconds{7}, .kind = EventKind::sync});
  EXPECT_EQ(break_down(trace).steps.at(0).devices.at(0).window, Nanoseconds{7});
}

// Two devices, with waits but without calls recorded. Only the recorder's work and host work tell what the host did.
//   device 0  K[0,10)  recorder [20,25)  host work [30,40)  K[50,60)  recorder [70,75)
//   device 1  K[0,5)
TEST(Breakdown, WithoutCallsRecordedHostWorkIsStillTheHosts) {
  Trace trace;
  trace.devices.resize(2);
  trace.names = {"x"};
  const auto event = [&](int device, EventKind kind, int start, int end) {
    trace.events.push_back({.start = Nanoseconds{start},
                            .duration = Nanoseconds{end - start},
                            .device = static_cast<std::int16_t>(device),
                            .lane = static_cast<std::uint8_t>(kind == EventKind::profiler ? 1 : 0),
                            .kind = kind});
  };
  event(0, EventKind::kernel, 0, 10);
  event(1, EventKind::kernel, 0, 5);
  event(0, EventKind::profiler, 20, 25);
  event(0, EventKind::host, 30, 40);
  event(0, EventKind::kernel, 50, 60);
  event(0, EventKind::profiler, 70, 75);
  trace.edges = {{1, 4, EdgeKind::event_wait}};
  trace.steps = {{0, Nanoseconds{0}, Nanoseconds{80}}};
  const IdleCauses causes = break_down(trace).steps.at(0).devices.at(0).causes;
  EXPECT_EQ(causes.profiler.count(), 5 + 5);
  EXPECT_EQ(causes.host.count(), 10);
  EXPECT_EQ(causes.unexplained.count(), 25 + 15);
  EXPECT_EQ(causes.total().count(), 60);
}

/// GPU 1 needs what GPU 0 computes from 0 to 100, and starts at 250. Parts of its idle time, with the end of its launch at `launched`.
std::vector<std::pair<std::int64_t, bool>> ends_of_waits(int launched) {
  Trace trace;
  trace.devices = {{"cuda:0", "", 132, 0}, {"cuda:1", "", 132, 0}};
  trace.names = {"kernel"};
  trace.threads = {"thread 1"};
  trace.steps = {{0, Nanoseconds{0}, Nanoseconds{300}}};
  trace.events = {Event{Nanoseconds{0}, Nanoseconds{100}, 0}, Event{Nanoseconds{250}, Nanoseconds{50}, 0}};
  for (Event& event : trace.events) event.kind = EventKind::kernel;
  trace.events[1].device = 1;
  trace.edges = {{0, 1, EdgeKind::data}};
  trace.launches = {{1, 0, 0, Nanoseconds{launched - 5}, Nanoseconds{launched}, 1}};
  std::vector<std::pair<std::int64_t, bool>> ends;
  const std::vector<std::vector<IdlePart>> parts = idle_parts(trace, trace.steps[0]);
  for (const IdlePart& part : parts[1]) ends.emplace_back(part.time.end.count(), part.cause == &IdleCauses::host);
  return ends;
}

TEST(Breakdown, ALateLaunchIsTheHostsOnlyOnceTheDataIsThere) {
  using Ends = std::vector<std::pair<std::int64_t, bool>>;
  EXPECT_EQ(ends_of_waits(205), (Ends{{100, false}, {205, true}, {250, true}}));
  EXPECT_EQ(ends_of_waits(60), (Ends{{100, false}, {250, true}}));
}

// In the file of one rank nothing says when the others came to a collective.
TEST(Breakdown, CollectivesOfOneDeviceAloneAreCommunication) {
  Trace trace;
  trace.names = {"gemm", "ncclDevKernel_AllReduce"};
  trace.devices = {{.name = "cuda:0", .description = ""}};
  const auto add = [&](int device, int start, int end, std::uint8_t lane, EventKind kind) {
    trace.events.push_back({.start = Nanoseconds{start},
                            .duration = Nanoseconds{end - start},
                            .name = kind == EventKind::collective ? 1 : 0,
                            .device = static_cast<std::int16_t>(device),
                            .lane = lane,
                            .kind = kind});
  };
  add(0, 0, 100, 0, EventKind::kernel);
  add(0, 60, 150, 1, EventKind::collective);
  EXPECT_EQ(lone_communicator(trace), 0);
  const DeviceBreakdown alone = break_down(trace).steps.at(0).devices.at(0);
  EXPECT_EQ(std::tuple(alone.compute.count(), alone.copy.count(), alone.overlap.count(), alone.idle.count()), std::tuple(60, 50, 40, 0));
  trace.devices.push_back({.name = "cuda:1", .description = ""});
  add(1, 70, 150, 1, EventKind::collective);
  EXPECT_EQ(lone_communicator(trace), -1);
  const DeviceBreakdown met = break_down(trace).steps.at(0).devices.at(0);
  EXPECT_EQ(std::tuple(met.compute.count(), met.copy.count(), met.overlap.count()), std::tuple(150, 0, 0));
  EXPECT_EQ(lone_communicator(Trace{}), -1);
}

TEST(QualityObjection, SaysWhatIsMissingAndHowMuch) {
  Trace trace = testing::hand_trace();
  trace.quality = {};
  EXPECT_EQ(quality_objection(trace), std::nullopt);
  trace.quality.unmatched = 7;
  EXPECT_EQ(quality_objection(trace), (QualityObjection{QualityObjection::Loss::unmatched, 0.5}));
}

TEST(MeanOverSteps, AddsUpInIntegers) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    Breakdown breakdown;
    const int steps = 1 + round % 7;
    std::int64_t window = 0;
    for (int s = 0; s < steps; ++s) {
      DeviceBreakdown device;
      device.compute = Nanoseconds{random() % 100};
      device.copy = Nanoseconds{random() % 100};
      device.overlap = Nanoseconds{random() % 100};
      device.causes.imbalance = Nanoseconds{random() % 100};
      device.causes.unexplained = Nanoseconds{random() % 100};
      device.idle = device.causes.total();
      device.window = device.compute + device.copy + device.overlap + device.idle;
      window += device.window.count();
      breakdown.steps.push_back({.step = s, .devices = {device}});
    }
    const DeviceBreakdown mean = mean_over_steps(breakdown, 0);
    EXPECT_EQ(mean.window.count(), window / steps);
    EXPECT_EQ(mean.compute + mean.copy + mean.overlap + mean.idle, mean.window);
    EXPECT_EQ(mean.causes.total(), mean.idle);
    EXPECT_GE(mean.causes.unexplained.count(), 0);
  }
}

}  // namespace
}  // namespace mptune::profiler
