#include "profiler/trace/analyze/critical_path.h"

#include <gtest/gtest.h>

#include "profiler/trace/analyze/links.h"
#include "tests/support/hand_trace.h"

namespace mptune::profiler {
namespace {

Event work(int device, EventKind kind, int start, int end, int tag, int detail = -1) {
  return {.start = Nanoseconds{start},
          .duration = Nanoseconds{end - start},
          .tag = tag,
          .detail = detail,
          .device = static_cast<std::int16_t>(device),
          .lane = static_cast<std::uint8_t>(kind == EventKind::copy ? copy_lane(1 - device) : kComputeLane),
          .kind = kind};
}

// Two devices, one micro-batch:  dev 0  F[10,30)  copy [35,45)                        B[80,100)
//                                dev 1                        F[45,60) B[60,75)  copy [75,80)
Trace two_stages() {
  Trace trace;
  trace.devices.resize(2);
  trace.names = {"work"};
  for (int stage = 0; stage < 2; ++stage) trace.tags.push_back({0, stage, 0, -1, 0});
  trace.copies = {{1000, 0, 1}, {500, 1, 0}};
  trace.events = {work(0, EventKind::forward, 10, 30, 0), work(0, EventKind::copy, 35, 45, 1, 0),
                  work(1, EventKind::forward, 45, 60, 1), work(1, EventKind::backward, 60, 75, 1),
                  work(1, EventKind::copy, 75, 80, 0, 1), work(0, EventKind::backward, 80, 100, 0)};
  trace.edges = {{0, 1, EdgeKind::data}, {1, 2, EdgeKind::data}, {2, 3, EdgeKind::order}, {3, 4, EdgeKind::data}, {4, 5, EdgeKind::data}};
  trace.steps = {{0, Nanoseconds{0}, Nanoseconds{110}}};
  return trace;
}

TEST(CriticalPath, GoesThroughEverythingThatWasWaitedFor) {
  const std::vector<StepWork> steps = step_works(two_stages());
  ASSERT_EQ(steps.size(), 1u);
  using Kind = CriticalPart::Kind;
  const auto ns = [](int n) { return Nanoseconds{n}; };
  const std::vector<CriticalPart> expected{{Kind::gap, 0, ns(10)},  {Kind::work, 0, ns(20)}, {Kind::gap, 1, ns(5)},
                                           {Kind::copy, 1, ns(10)}, {Kind::work, 2, ns(15)}, {Kind::work, 3, ns(15)},
                                           {Kind::copy, 4, ns(5)},  {Kind::work, 5, ns(20)}, {Kind::gap, -1, ns(10)}};
  EXPECT_EQ(critical_path(steps[0]), expected);
}

TEST(CriticalPath, SumsToTheWindowOfAnyTrace) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    Trace trace = testing::random_trace(random, 3, 40);
    for (int e = 0; e + 1 < static_cast<int>(trace.events.size()); e += 2) trace.edges.push_back({e, e + 1, EdgeKind::data});
    for (const StepWork& step : step_works(trace)) {
      Nanoseconds sum{0};
      for (const CriticalPart& part : critical_path(step)) sum += part.time;
      EXPECT_EQ(sum, step.works.empty() ? Nanoseconds{0} : step.window.end - step.window.start);
    }
  }
}

TEST(LinkUse, CountsBothDirectionsAndWhatIsExposed) {
  Trace trace = two_stages();
  // The destination computes during the last 4 ns of the copy to it.
  trace.events[2].start -= Nanoseconds{4};
  trace.events[2].duration += Nanoseconds{4};
  const std::vector<LinkUse> expected{{0, 1, 1, 1000, Nanoseconds{10}, Nanoseconds{6}}, {1, 0, 1, 500, Nanoseconds{5}, Nanoseconds{5}}};
  EXPECT_EQ(link_use(trace), expected);
  EXPECT_EQ(worst_violation(trace).count(), 4);
  EXPECT_EQ(worst_violation(two_stages()).count(), 0);
}

TEST(LinkUse, CopiesToTheHostAreExposed) {
  Trace trace = two_stages();
  trace.copies.front().destination = -1;
  const std::vector<LinkUse> used = link_use(trace);
  ASSERT_EQ(used.size(), 2U);
  EXPECT_EQ(used[0], (LinkUse{0, -1, 1, 1000, Nanoseconds{10}, Nanoseconds{10}}));
}

}  // namespace
}  // namespace mptune::profiler
