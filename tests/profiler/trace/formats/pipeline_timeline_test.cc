#include "profiler/trace/formats/pipeline_timeline.h"
#include "profiler/base/index.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "profiler/trace/analyze/replay.h"
#include "profiler/trace/store/tables.h"
#include "profiler/trace/values/intervals.h"
#include "tests/profiler/trace/formats/files.h"

namespace mptune::profiler {
namespace {

using ::testing::Contains;

std::string thread(int pid, int tid, const std::string& name) {
  return R"({"ph":"M","name":"thread_name","pid":)" + std::to_string(pid) + R"(,"tid":)" + std::to_string(tid) + R"(,"args":{"name":")" +
         name + R"("}},)";
}

std::string op(int pid, int tid, const std::string& name, double ts, double dur, int microbatch, int step = 0) {
  return R"({"ph":"X","name":")" + name + R"(","pid":)" + std::to_string(pid) + R"(,"tid":)" + std::to_string(tid) + R"(,"ts":)" +
         std::to_string(ts) + R"(,"dur":)" + std::to_string(dur) + R"(,"args":{"step":)" + std::to_string(step) +
         R"(,"model_chunk":0,"mb_id":)" + std::to_string(microbatch) + "}},";
}

// Two stages of one replica, one micro-batch:
//   stage 0   gather 0-1  F 1-3                            B 10-14   clip 15-16 opt 16-17
//             send 3 ------5                receive 8 ----10
//   stage 1        receive 2-----6  F 6-7  B 7-9  send 9--10         clip 14-16 opt 16-17
std::string two_stages() {
  std::string text = "[";
  for (const int stage : {0, 1}) {
    const std::string rank = "PP rank " + std::to_string(stage) + ", TP rank 0, ";
    text +=
        thread(0, 10 * stage, rank + "compute") + thread(0, 10 * stage + 1, rank + "pp-comm") + thread(0, 10 * stage + 2, rank + "dp-comm");
  }
  text += op(0, 2, "params-all-gather", 100, 1, -1) + op(0, 0, "forward-compute", 101, 2, 0) + op(0, 1, "forward-send", 103, 2, -1) +
          op(0, 11, "forward-recv", 102, 4, -1) + op(0, 10, "forward-compute", 106, 1, 0) + op(0, 10, "backward-compute", 107, 2, 0) +
          op(0, 11, "backward-send", 109, 1, -1) + op(0, 1, "backward-recv", 108, 2, -1) + op(0, 0, "backward-compute", 110, 4, 0) +
          op(0, 2, "optimizer-clip-main-grad", 115, 1, -1) + op(0, 12, "optimizer-clip-main-grad", 114, 2, -1) +
          op(0, 0, "optimizer", 116, 1, -1) + op(0, 10, "optimizer", 116, 1, -1);
  text.back() = ']';
  return text;
}

struct Line {
  std::string name;
  int device;
  int lane;
  std::int64_t start_us;
  std::int64_t end_us;
  int microbatch;
  bool operator==(const Line&) const = default;
};

void PrintTo(const Line& line, std::ostream* out) {
  *out << line.name << " on " << line.device << "/" << line.lane << " " << line.start_us << "-" << line.end_us << " of " << line.microbatch;
}

Line line_of(const Trace& trace, int index) {
  const Event& event = trace.events.at(as_index(index));
  return {trace.names.at(as_index(event.name)),         event.device, event.lane, event.start.count() / 1000, event.end().count() / 1000,
          trace.tags.at(as_index(event.tag)).microbatch};
}

std::vector<Line> lines_of(const Trace& trace) {
  std::vector<Line> lines;
  for (int i = 0; i < static_cast<int>(trace.events.size()); ++i) lines.push_back(line_of(trace, i));
  return lines;
}

Trace timeline_of(const std::string& text) {
  TextInput input = text_in_memory(text.data(), text.size());
  return read_pipeline_timeline(input);
}

TEST(PipelineTimeline, SplitsWaitsFromTransfers) {
  const Trace trace = timeline_of(two_stages());
  EXPECT_EQ(inconsistency(trace), "");
  ASSERT_EQ(trace.devices.size(), 2U);
  EXPECT_EQ(trace.devices[1].name, "stage:1/0");
  EXPECT_THAT(lines_of(trace),
              ::testing::ElementsAre(Line{"params-all-gather", 0, 3, 0, 1, -1}, Line{"forward-compute", 0, 0, 1, 3, 0},
                                     Line{"copy forward", 0, 2, 3, 6, 0}, Line{"forward-compute", 1, 0, 6, 7, 0},
                                     Line{"backward-compute", 1, 0, 7, 9, 0}, Line{"copy backward", 1, 1, 9, 10, 0},
                                     Line{"backward-compute", 0, 0, 10, 14, 0}, Line{"optimizer-clip-main-grad", 1, 3, 15, 16, -1},
                                     Line{"optimizer-clip-main-grad", 0, 3, 15, 16, -1}, Line{"optimizer", 0, 0, 16, 17, -1},
                                     Line{"optimizer", 1, 0, 16, 17, -1}));
  EXPECT_EQ(trace.copies, (std::vector<Copy>{{.source = 0, .destination = 1}, {.source = 1, .destination = 0, .gradient = true}}));
  EXPECT_EQ(trace.steps, (std::vector<StepWindow>{{.step = 0, .start = Nanoseconds{0}, .end = Nanoseconds{17000}}}));
  EXPECT_EQ(trace.quality, TraceQuality{});
}

TEST(PipelineTimeline, EdgesSayWhatHadToEndFirst) {
  const Trace trace = timeline_of(two_stages());
  // By the indices of the test above: gather 0, F 1, copy 2, F 3, B 4, copy 5, B 6, clips 7 and 8, optimizers 9 and 10.
  for (const Edge edge : {Edge{0, 1, EdgeKind::data}, Edge{1, 2, EdgeKind::data}, Edge{2, 3, EdgeKind::data}, Edge{3, 4, EdgeKind::order},
                          Edge{4, 5, EdgeKind::data}, Edge{5, 6, EdgeKind::data}, Edge{1, 6, EdgeKind::order}, Edge{6, 7, EdgeKind::data},
                          Edge{6, 8, EdgeKind::data}, Edge{4, 7, EdgeKind::data}, Edge{7, 10, EdgeKind::data}, Edge{8, 9, EdgeKind::data}})
    EXPECT_THAT(trace.edges, Contains(edge)) << edge.producer << " -> " << edge.consumer;
  for (const Edge& edge : trace.edges) EXPECT_LT(edge.producer, edge.consumer);
}

TEST(PipelineTimeline, StatedMicrobatchesOverruleTheOrder) {
  std::string text = "[" + thread(0, 0, "PP rank 0, TP rank 0, compute") + thread(0, 1, "PP rank 0, TP rank 0, pp-comm") +
                     thread(0, 10, "PP rank 1, TP rank 0, compute") + thread(0, 11, "PP rank 1, TP rank 0, pp-comm") +
                     op(0, 0, "forward-compute", 0, 1, 0) + op(0, 0, "forward-compute", 1, 1, 1) + op(0, 1, "forward-send", 1, 9, 0) +
                     op(0, 1, "forward-send", 2, 2, 1) + op(0, 11, "forward-recv", 2, 2, 1) + op(0, 11, "forward-recv", 5, 5, 0) +
                     op(0, 10, "forward-compute", 4, 1, 1) + op(0, 10, "forward-compute", 10, 1, 0);
  text.back() = ']';
  const Trace trace = timeline_of(text);
  EXPECT_THAT(lines_of(trace), Contains(Line{"copy forward", 0, 2, 2, 4, 1}));
  EXPECT_THAT(lines_of(trace), Contains(Line{"copy forward", 0, 2, 5, 10, 0}));
}

TEST(PipelineTimeline, ReplicasAreDevices) {
  std::string text = "[" + thread(7, 0, "PP rank 0, TP rank 0, compute") + thread(10, 0, "PP rank 0, TP rank 0, compute") +
                     thread(10, 1, "PP rank 0, TP rank 1, compute") + op(10, 0, "forward-compute", 0, 1, 0) +
                     op(7, 0, "forward-compute", 5, 1, 0) + op(10, 1, "forward-compute", 0, 1, 0) + op(7, 0, "forward-send", 6, 1, 0) +
                     op(7, 3, "forward-compute", 6, 1, 0);
  text.back() = ']';
  const Trace trace = timeline_of(text);
  ASSERT_EQ(trace.devices.size(), 2U);
  ASSERT_EQ(trace.events.size(), 2U);
  EXPECT_EQ(trace.events[0].device, 1);
  EXPECT_EQ(trace.events[1].device, 0);
  EXPECT_EQ(trace.tags[1].replica, 0);
  EXPECT_EQ(trace.quality.unmatched, 1);  // the send
  EXPECT_EQ(trace.quality.dropped, 1);    // the thread without a name
}

// Garbage collection lasts into a forward: what begins later for it, comes later, and its edges follow it.
TEST(PipelineTimeline, EventsThatLoseTheirBeginningStayInOrder) {
  std::string text = "[" + thread(0, 0, "PP rank 0, TP rank 0, compute") + thread(0, 10, "PP rank 1, TP rank 0, compute") +
                     op(0, 0, "gc", 0, 10, -1) + op(0, 0, "forward-compute", 5, 7, 0) + op(0, 10, "forward-compute", 7, 1, 0);
  text.back() = ']';
  const Trace trace = timeline_of(text);
  EXPECT_THAT(lines_of(trace), ::testing::ElementsAre(Line{"gc", 0, 0, 0, 10, -1}, Line{"forward-compute", 1, 0, 7, 8, 0},
                                                      Line{"forward-compute", 0, 0, 10, 12, 0}));
  EXPECT_EQ(trace.edges, (std::vector<Edge>{{0, 2, EdgeKind::order}}));
}

// Two collectives overlap on one lane, which is odd: the second one's edge to the optimizer would lead back in time.
TEST(PipelineTimeline, AnEdgeThatTurnsBackIsRemovedAndCounted) {
  std::string text = "[" + thread(0, 0, "PP rank 0, TP rank 0, compute") + thread(0, 2, "PP rank 0, TP rank 0, dp-comm") +
                     op(0, 2, "params-all-gather", 0, 40, -1) + op(0, 0, "forward-compute", 1, 2, 0) +
                     op(0, 2, "optimizer-clip-main-grad", 10, 3, -1) + op(0, 0, "optimizer", 15, 3, -1);
  text.back() = ']';
  const Trace trace = timeline_of(text);
  EXPECT_EQ(inconsistency(trace), "");
  for (const Edge& edge : trace.edges) EXPECT_LT(edge.producer, edge.consumer);
  EXPECT_EQ(trace.quality.unmatched, 1);
  EXPECT_EQ(trace.quality.dropped, 1);
}

class PublicTimeline : public ::testing::Test {
 protected:
  // Means over steps and replicas of the idle share of every stage between the replica's first forward and last backward.
  static std::vector<double> idle_shares(const Trace& trace, int stages) {
    std::map<std::pair<int, int>, TimeInterval> windows;
    std::map<std::tuple<int, int, int>, std::vector<TimeInterval>> busy;
    for (const Event& event : trace.events) {
      if (event.kind != EventKind::forward && event.kind != EventKind::backward) continue;
      const Tag& tag = trace.tags[as_index(event.tag)];
      const auto [window, is_new] = windows.try_emplace({tag.step, tag.replica}, TimeInterval{event.start, event.end()});
      window->second = {std::min(window->second.start, event.start), std::max(window->second.end, event.end())};
      busy[{tag.stage, tag.step, tag.replica}].push_back({event.start, event.end()});
    }
    std::vector<double> shares;
    double all = 0;
    for (const auto& [key, window] : windows) all += static_cast<double>((window.end - window.start).count());
    for (int stage = 0; stage < stages; ++stage) {
      double idle = 0;
      for (const auto& [key, window] : windows)
        idle += static_cast<double>((window.end - window.start - total(merge(busy[{stage, key.first, key.second}]))).count());
      shares.push_back(100 * idle / all);
    }
    return shares;
  }

  // Of four stages each.
  static void expect_shares(const Trace& trace, const std::vector<double>& published) {
    const std::vector<double> shares = idle_shares(trace, 4);
    for (std::size_t stage = 0; stage < 4; ++stage) EXPECT_NEAR(shares[stage], published.at(stage), 0.05) << stage;
  }

  static void expect_sound(const Trace& trace) {
    EXPECT_EQ(inconsistency(trace), "");
    EXPECT_EQ(trace.quality, TraceQuality{});
    std::map<std::pair<int, int>, Nanoseconds> free;
    for (const Event& event : trace.events) {
      Nanoseconds& next = free[{event.device, event.lane}];
      EXPECT_GE(event.start, next);
      next = event.end();
    }
    std::vector<Nanoseconds> durations;
    for (const Event& event : trace.events) durations.push_back(event.duration);
    EXPECT_NO_THROW((void)replay(trace, durations));
  }
};

TEST_F(PublicTimeline, LongLastStage) {
  const std::string path = testing::shared_data("straggler/timeline-ST.json.gz");
  if (path.empty()) {
    GTEST_SKIP() << "the public pipeline timelines are not here";
  }
  const Trace trace = read_pipeline_timeline(path);
  EXPECT_EQ(trace.devices.size(), 8U);
  EXPECT_EQ(trace.steps.size(), 32U);
  EXPECT_EQ(trace.copies.size(), 1536U);
  expect_sound(trace);
  expect_shares(trace, {58.2, 58.1, 57.9, 31.6});
  // Published for step 23: 2.3816521 s, counted from shortly before the first operation.
  EXPECT_EQ(trace.steps.front().step, 23);
  EXPECT_NEAR(static_cast<double>((trace.steps.front().end - trace.steps.front().start).count()) * 1e-9, 2.3816521, 50e-6);
}

TEST_F(PublicTimeline, OneSlowWorker) {
  const std::string path = testing::shared_data("straggler/timeline-AR.json.gz");
  if (path.empty()) {
    GTEST_SKIP() << "the public pipeline timelines are not here";
  }
  const Trace trace = read_pipeline_timeline(path);
  EXPECT_EQ(trace.devices.size(), 16U);
  EXPECT_EQ(trace.steps.size(), 44U);
  expect_sound(trace);
  expect_shares(trace, {7.5, 30.9, 31.1, 27.8});
}

}  // namespace
}  // namespace mptune::profiler
