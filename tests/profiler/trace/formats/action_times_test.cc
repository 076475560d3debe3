#include "profiler/trace/formats/action_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/trace/formats/any_trace.h"
#include "tests/profiler/trace/formats/files.h"
#include "tests/profiler/trace/formats/refusals.h"

namespace mptune::profiler {
namespace {

using ::testing::HasSubstr;

using ActionTimesTest = testing::Files;

// Two ranks, two micro-batches, GPipe: forwards take 10 ms, backwards 20 ms.
constexpr const char* kFirstRank = R"({"1": {"total": 90.0, "memory": 2.0, "fwd_start": [0, 10], "fwd_end": [10, 20],
                                            "bwd_start": [50, 70], "bwd_end": [70, 90]}})";
constexpr const char* kLastRank = R"({"1": {"total": 70.0, "memory": 1.0, "fwd_start": [10, 20], "fwd_end": [20, 30],
                                           "bwd_start": [30, 50], "bwd_end": [50, 70]}})";
constexpr const char* kTable =
    "run,iteration,rank,kind,nth,start_ms,end_ms\n"
    "a,1,0,fwd,0,0,10\na,1,0,fwd,1,10,20\na,1,0,bwd,0,50,70\na,1,0,bwd,1,70,90\n"
    "a,1,1,fwd,0,10,20\na,1,1,fwd,1,20,30\na,1,1,bwd,0,30,50\na,1,1,bwd,1,50,70\n";

// "F0[0 10]": kind, micro-batch, start and end [ms], of one device.
std::vector<std::string> actions(const Trace& trace, int device) {
  std::vector<std::string> texts;
  for (const Event& event : trace.events) {
    if (event.device != device) continue;
    const char letter = event.kind == EventKind::forward          ? 'F'
                        : event.kind == EventKind::backward       ? 'B'
                        : event.kind == EventKind::backward_input ? 'I'
                                                                  : 'W';
    const auto ms = [](Nanoseconds time) { return std::to_string(time.count() / 1'000'000); };
    texts.push_back(letter + std::to_string(trace.tags[as_index(event.tag)].microbatch) + "[" + ms(event.start) + " " + ms(event.end()) +
                    "]");
  }
  return texts;
}

TEST_F(ActionTimesTest, OneFileOfEveryRankAFolderOneFileAndATableAreTheSame) {
  const std::string first = put("pp_rank_0.json", kFirstRank), last = put_gz("pp_rank_1.json.gz", kLastRank);
  const Trace trace = read_action_timeline({last, first}).trace;
  EXPECT_THAT(actions(trace, 0), ::testing::ElementsAre("F0[0 10]", "F1[10 20]", "B0[50 70]", "B1[70 90]"));
  EXPECT_THAT(actions(trace, 1), ::testing::ElementsAre("F0[10 20]", "F1[20 30]", "B0[30 50]", "B1[50 70]"));
  EXPECT_EQ(trace.devices.at(0).peak_bytes, std::int64_t{2} << 30);
  EXPECT_EQ(trace.steps, (std::vector<StepWindow>{{1, Nanoseconds{0}, std::chrono::milliseconds{90}}}));
  Trace without_memory = trace;
  for (TraceDevice& device : without_memory.devices) device.peak_bytes = 0;
  const std::string folder = path("").substr(0, path("").size() - 1);
  EXPECT_EQ(trace_format(folder), TraceFormat::action_times);
  EXPECT_EQ(read_any_trace(folder), trace);
  EXPECT_EQ(read_any_trace(put("all.json", "[" + std::string(kFirstRank) + "," + kLastRank + "]")), trace);
  EXPECT_EQ(read_any_trace(put("named.json", R"({"rank 1":)" + std::string(kLastRank) + R"(, "rank 0":)" + kFirstRank + "}")), trace);
  EXPECT_EQ(read_any_trace(put("numbered.json", R"({"1":)" + std::string(kLastRank) + R"(, "0":)" + kFirstRank + "}")), trace);
  EXPECT_EQ(read_any_trace(put("table.csv", kTable)), without_memory);
  const auto inner = [](const char* rank) { return std::string(rank).substr(6, std::string(rank).size() - 7); };  // of {"1": ...}
  const std::string both = R"({"0":)" + inner(kFirstRank) + R"(, "1":)" + inner(kLastRank) + "}";
  EXPECT_EQ(read_any_trace(put("iterations.json", R"({"1":)" + both + "}")), trace);
  EXPECT_EQ(read_any_trace(put("iteration 1.json", R"({"iteration 1":)" + both + "}")), trace);
  const Trace one = read_any_trace(put("one.json", both));
  EXPECT_EQ(one.events, trace.events);
  EXPECT_EQ(one.steps.at(0).step, 0);
  EXPECT_EQ(read_any_trace(put("pp_rank_7.json", both)).steps.size(), 2U) << "iterations of one rank";
}

TEST_F(ActionTimesTest, IterationsFollowOneAnother) {
  const Trace trace =
      read_action_timeline({put("t.csv", "iteration,rank,kind,start_ms,end_ms\n7,0,fwd,1,2\n7,0,bwd,2,4\n9,0,fwd,0.5,1\n9,0,bwd,1,3\n")})
          .trace;
  ASSERT_EQ(trace.steps.size(), 2U);
  EXPECT_EQ(trace.steps[0], (StepWindow{7, Nanoseconds{0}, std::chrono::milliseconds{3}}));
  EXPECT_EQ(trace.steps[1], (StepWindow{9, std::chrono::milliseconds{3}, std::chrono::microseconds{5500}}));
  EXPECT_EQ(trace.quality, TraceQuality{});
}

TEST_F(ActionTimesTest, IterationsMayHaveLargeNumbers) {
  const Trace trace = read_action_timeline({put("pp_rank_0.json", R"({"250000": {"fwd_start": [0], "fwd_end": [1]}})")}).trace;
  ASSERT_EQ(trace.steps.size(), 1U);
  EXPECT_EQ(trace.steps[0].step, 250000);
}

TEST_F(ActionTimesTest, AnIterationThatARankLacksIsLeftOut) {
  const Trace trace = read_action_timeline({put("t.csv",
                                                "iteration,rank,kind,start_ms,end_ms\n1,0,fwd,0,1\n1,0,bwd,3,4\n1,1,fwd,1,2\n1,1,bwd,2,3\n"
                                                "2,0,fwd,0,1\n2,0,bwd,3,4\n")})
                          .trace;
  EXPECT_EQ(trace.steps.size(), 1U);
  EXPECT_EQ(trace.quality.dropped, 2);
}

// combined_fwd_bwd_wrapper of Primus records one interval for both.
TEST_F(ActionTimesTest, AForwardAndABackwardTimedAsOneShareTheTime) {
  const Trace trace =
      read_action_timeline(
          {put("t.csv", "rank,kind,microbatch,start_ms,end_ms\n0,fwd,0,0,10\n0,fwd,1,10,30\n0,bwd,0,10,30\n0,bwd,1,30,40\n")})
          .trace;
  EXPECT_THAT(actions(trace, 0), ::testing::ElementsAre("F0[0 10]", "F1[10 20]", "B0[20 30]", "B1[30 40]"));
}

TEST_F(ActionTimesTest, WeightGradientsAreTheirOwn) {
  const Trace trace = read_action_timeline({put("pp_rank_0.json", R"({"fwd_start": [0], "fwd_end": [10], "bwd_start": [10], "bwd_end": [20],
      "wgrad_start": [20], "wgrad_end": [30]})")})
                          .trace;
  EXPECT_THAT(actions(trace, 0), ::testing::ElementsAre("F0[0 10]", "I0[10 20]", "W0[20 30]"));
}

std::string refused(const std::string& text) {
  return testing::refusal_of_text([](TextInput& input) { (void)timeline_of(read_action_json(input, 0)); }, text);
}

std::string refused_table(const std::string& text) {
  return testing::refusal_of_text([](TextInput& input) { (void)timeline_of(read_action_table(input)); }, text);
}

TEST(HostileActionTimes, Json) {
  EXPECT_THAT(refused(""), HasSubstr("JSON"));
  EXPECT_THAT(refused(R"({"1": {"fwd_start": [0], "fwd_end": [)"), HasSubstr("JSON"));
  EXPECT_THAT(refused("{}"), HasSubstr("no forward"));
  EXPECT_THAT(refused("[]"), HasSubstr("no forward"));
  EXPECT_THAT(refused(R"({"1": 5})"), HasSubstr("is not a JSON object"));
  EXPECT_THAT(refused(R"({"one": {"fwd_start": [0], "fwd_end": [1]}})"), HasSubstr("no number of a rank or an iteration"));
  EXPECT_THAT(refused(R"({"1": {"fwd_start": [0, 1], "fwd_end": [1]}})"), HasSubstr("1 ends of 2 starts"));
  EXPECT_THAT(refused(R"({"1": {"fwd_start": ["a"], "fwd_end": [1]}})"), HasSubstr("must be a"));
  EXPECT_THAT(refused(R"({"1": {"fwd_start": [5], "fwd_end": [1]}})"), HasSubstr("number 0 ends before it starts"));
  EXPECT_THAT(refused(R"({"1": {"fwd_start": [0], "fwd_end": [1e300]}})"), HasSubstr("14 months"));
  EXPECT_THAT(refused(R"({"1": {"fwd_start": [0], "fwd_end": [1], "fwd_minibatch": [0, 1]}})"), HasSubstr("2 numbers for 1 actions"));
  EXPECT_THAT(refused(R"({"1": {"fwd_start": [0], "fwd_end": [1], "fwd_minibatch": [-1]}})"), HasSubstr("out of range"));
  EXPECT_THAT(refused(R"({"1": {"fwd_start": [0], "fwd_end": [1], "fwd_chunk": [99]}})"), HasSubstr("out of range"));
  EXPECT_THAT(refused(R"({"1": {"fwd_start": [0], "fwd_end": [1], "memory": -1}})"), HasSubstr("out of range"));
  EXPECT_THAT(refused(R"({"rank 4096": {"1": {"fwd_start": [0], "fwd_end": [1]}}})"), HasSubstr("more than 4096 ranks"));
}

TEST(HostileActionTimes, Table) {
  const std::string head = "rank,kind,start_ms,end_ms\n";
  EXPECT_THAT(refused_table(""), HasSubstr("empty"));
  EXPECT_THAT(refused_table("rank,kind,start_ms\n"), HasSubstr("the column end_ms is missing"));
  EXPECT_THAT(refused_table(head), HasSubstr("no forward"));
  EXPECT_THAT(refused_table(head + "0,fwd,0\n"), HasSubstr("3 cells in a table of 4 columns"));
  EXPECT_THAT(refused_table(head + "0,sideways,0,1\n"), HasSubstr("neither fwd nor bwd"));
  EXPECT_THAT(refused_table(head + "-1,fwd,0,1\n"), HasSubstr("rank is not a whole number"));
  EXPECT_THAT(refused_table(head + ",fwd,0,1\n"), HasSubstr("the rank is missing"));
  EXPECT_THAT(refused_table(head + "0,fwd,x,1\n"), HasSubstr("start_ms is not a number"));
  EXPECT_THAT(refused_table(head + "0,fwd,nan,1\n"), HasSubstr("no finite time"));
  EXPECT_THAT(refused_table(head + "0,fwd,3,1\n"), HasSubstr("ends before it starts"));
  EXPECT_THAT(refused_table("run," + head + "a,0,fwd,0,1\nb,0,fwd,0,1\n"), HasSubstr("several runs"));
}

TEST_F(ActionTimesTest, RefusesFilesThatDoNotBelongTogether) {
  const std::string first = put("pp_rank_0.json", kFirstRank);
  const std::string again = put("sub_rank_0.json", kFirstRank);
  EXPECT_THAT(testing::refusal_of([&] { (void)read_action_timeline({first, again}); }), HasSubstr("another file is of rank 0"));
  (void)put("config.json", R"({"pp_size": 2, "vp_size": 1, "num_mbs": 1})");
  EXPECT_THAT(testing::refusal_of([&] { (void)read_action_timeline({first}); }), HasSubstr("2 forwards of a rank are not those of 1"));
  (void)put("config.json", R"({"pp_size": -2})");
  EXPECT_THAT(testing::refusal_of([&] { (void)read_action_timeline({first}); }), HasSubstr("pp_size"));
  EXPECT_FALSE(holds_action_times(path("no such file")));
  EXPECT_FALSE(holds_action_times(put("other.csv", "a,b\n1,2\n")));
  EXPECT_FALSE(holds_action_times(put("list.json", R"([{"ph": "X", "name": "fwd_start", "ts": 1, "dur": 1}])")));
  EXPECT_FALSE(holds_action_times(put("kineto.json", R"({"traceEvents": [{"name": "fwd_start"}], "fwd_start": []})")));
}

}  // namespace
}  // namespace mptune::profiler
