#include "profiler/trace/values/trace_builder.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mptune::profiler {
namespace {

TEST(TraceBuilder, NumbersEveryNameThreadAndTagOnce) {
  Trace trace;
  TraceBuilder builder(trace);
  EXPECT_EQ(builder.name("a"), 0);
  EXPECT_EQ(builder.name("b"), 1);
  EXPECT_EQ(builder.name("a"), 0);
  EXPECT_EQ(builder.thread("a"), 0);
  EXPECT_EQ(builder.tag({.step = 1, .layer = 2}), 0);
  EXPECT_EQ(builder.tag({.step = 1, .replica = 2}), 1);
  EXPECT_EQ(builder.tag({.step = 1, .layer = 2}), 0);
  EXPECT_EQ(trace.names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(trace.threads, (std::vector<std::string>{"a"}));
  EXPECT_EQ(trace.tags, (std::vector<Tag>{{.step = 1, .layer = 2}, {.step = 1, .replica = 2}}));
}

TEST(TraceBuilder, KnowsWhatTheTraceHas) {
  Trace trace;
  trace.names = {"a"};
  trace.tags = {{.stage = 3}};
  TraceBuilder builder(trace);
  EXPECT_EQ(builder.name("a"), 0);
  EXPECT_EQ(builder.tag({.stage = 3}), 0);
  EXPECT_EQ(builder.tag({.stage = 4}), 1);
}

TEST(OrderEvents, TakesLaunchesAndEdgesAlong) {
  Trace trace;
  trace.events.resize(2);
  trace.events[0].start = Nanoseconds{5};
  trace.launches.resize(2);
  trace.launches[0].event = 0;
  trace.edges = {{1, 0, EdgeKind::data}};
  order_events(trace);
  EXPECT_EQ(trace.events[1].start, Nanoseconds{5});
  EXPECT_EQ(trace.launches[0].event, 1);
  EXPECT_EQ(trace.launches[1].event, -1);
  EXPECT_EQ(trace.edges[0], (Edge{0, 1, EdgeKind::data}));
}

}  // namespace
}  // namespace mptune::profiler
