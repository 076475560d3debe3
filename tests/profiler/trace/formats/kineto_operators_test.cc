#include "profiler/trace/formats/kineto_operators.h"

#include <gmock/gmock.h>

#include "profiler/base/index.h"
#include "profiler/trace/analyze/breakdown.h"
#include "profiler/trace/formats/kineto.h"
#include "profiler/trace/ranks/merge_ranks.h"
#include "profiler/trace/store/tables.h"

namespace mptune::profiler {
namespace {

using ::testing::ElementsAre;

std::string host_row(const std::string& category, const std::string& name, int thread, int start, int duration,
                     const std::string& args = "") {
  return R"({"ph":"X","cat":")" + category + R"(","name":")" + name + R"(","pid":100,"tid":)" + std::to_string(thread) + R"(,"ts":)" +
         std::to_string(start) + R"(,"dur":)" + std::to_string(duration) + R"(,"args":{)" + args + "}},";
}

RankRecording recording_of(const std::string& rows, const std::string& head = "") {
  const std::string text = "{" + head + R"("traceEvents":[)" + rows.substr(0, rows.size() - 1) + "]}";
  TextInput input = text_in_memory(text.data(), text.size());
  RankRecording recording = read_kineto_rank(input);
  EXPECT_EQ(inconsistency(recording.trace), "");
  return recording;
}

std::vector<std::string> work_in(const Trace& trace) {
  std::vector<std::string> rows;
  for (const Event& event : trace.events)
    rows.push_back(trace.devices[as_index(event.device)].name + "/" + std::to_string(event.lane) + " " + to_string(event.kind) + " " +
                   trace.names[as_index(event.name)] + " " + std::to_string(event.start.count() / 1000) + "+" +
                   std::to_string(event.duration.count() / 1000));
  return rows;
}

std::string step(int number, int start, int duration) {
  return host_row("user_annotation", "ProfilerStep#" + std::to_string(number), 100, start, duration);
}

TEST(KinetoOperators, ThreadsThatWorkBecomeDevices) {
  const Trace trace =
      recording_of(step(0, 0, 100) + host_row("user_annotation", "forward", 100, 5, 40) + host_row("cpu_op", "aten::linear", 100, 10, 20) +
                   host_row("cpu_op", "aten::addmm", 100, 12, 15) + host_row("cpu_op", "aten::relu", 100, 30, 10) +
                   host_row("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 107, 50, 30) +
                   host_row("cpu_op", "AddmmBackward0", 107, 51, 28) + host_row("cpu_op", "aten::copy_", 109, 5, 5) +
                   host_row("python_function", "train.py: main", 111, 0, 100))
          .trace;
  EXPECT_THAT(work_in(trace),
              ElementsAre("thread:0/0 kernel aten::copy_ 5+5", "main/0 kernel aten::linear 10+20", "main/0 kernel aten::relu 30+10",
                          "autograd/0 kernel autograd::engine::evaluate_function: AddmmBackward0 50+30"));
  EXPECT_EQ(trace.devices[0].description, "thread 109");
  const Breakdown breakdown = break_down(trace);
  ASSERT_EQ(breakdown.steps.size(), 1U);
  for (const DeviceBreakdown& device : breakdown.steps[0].devices) {
    EXPECT_EQ(device.window, Nanoseconds{100'000});
    EXPECT_EQ(device.compute + device.idle, device.window);
    EXPECT_EQ(device.causes.total(), device.idle);
  }
  EXPECT_EQ(breakdown.steps[0].devices[1].compute, Nanoseconds{30'000});
  ASSERT_EQ(trace.ranges.size(), 2U);
  EXPECT_EQ(trace.ranges[1].device, 1);
}

TEST(KinetoOperators, WaitsForOtherProcessesAreNoWork) {
  const RankRecording rank =
      recording_of(host_row("cpu_op", "aten::mm", 100, 0, 10) + host_row("cpu_op", "hook", 100, 20, 20) +
                   host_row("cpu_op", "c10d::allreduce_", 100, 25, 5) +
                   host_row("cpu_op", "record_param_comms", 100, 26, 3,
                            R"("Collective name":"allreduce","dtype":"Float","In msg nelems":8,)"
                            R"("Process Group Name":"0","Process Group Ranks":"[0, 1]","Seq":4)") +
                   host_row("user_annotation", "gloo:all_reduce", 100, 27, 33) + host_row("cpu_op", "aten::add", 100, 45, 5) +
                   host_row("user_annotation", "gloo:broadcast", 104, 70, 5));
  EXPECT_THAT(work_in(rank.trace),
              ElementsAre("main/0 kernel aten::mm 0+10", "main/0 kernel hook 20+5", "main/1 sync gloo:all_reduce 27+33",
                          "main/0 kernel hook 30+10", "main/0 kernel aten::add 45+5", "main/1 sync gloo:broadcast 70+5"));
  EXPECT_TRUE(rank.trace.launches.empty());
  ASSERT_EQ(rank.communications.size(), 2U);
  EXPECT_EQ(rank.communications[0].operation, "allreduce");
  EXPECT_EQ(rank.communications[0].bytes, 32);
  EXPECT_EQ(rank.communications[0].event, 2);
  EXPECT_EQ(rank.communications[1].operation, "broadcast");
  EXPECT_EQ(rank.communications[1].event, 5);
}

TEST(KinetoOperators, InnermostAnnotationsAreWorkOfThreadsWithoutOperators) {
  const Trace trace = recording_of(step(1, 0, 50) + host_row("user_annotation", "epoch", 100, 0, 50) +
                                   host_row("user_annotation", "load", 100, 5, 10) + host_row("user_annotation", "train", 100, 20, 20))
                          .trace;
  EXPECT_THAT(work_in(trace), ElementsAre("main/0 kernel load 5+10", "main/0 kernel train 20+20"));
}

TEST(KinetoOperators, CountForNothingBesideAGpu) {
  const std::string kernel = R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":50,"dur":5,"args":{"device":0,"stream":7}},)";
  for (const bool first : {false, true}) {
    const std::string op = host_row("cpu_op", "aten::mm", 100, 0, 10);
    EXPECT_THAT(work_in(recording_of(first ? op + kernel : kernel + op).trace), ElementsAre("cuda:0/0 kernel k 0+5"));
  }
}

// Rank 1 comes 30 us later to each sum: rank 0 waits. They send, so they are stages, and the wait is imbalance.
TEST(KinetoOperators, RanksMeetInTheirWaits) {
  std::vector<RankRecording> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    std::string rows;
    for (int number = 0; number < 10; ++number) {
      const int start = 1000 * number, came = start + 50 + 30 * rank;
      rows += step(number, start, 200) + host_row("cpu_op", "aten::mm", 100, start, came - start) +
              host_row("user_annotation", "gloo:all_reduce", 100, came, start + 100 - came) +
              host_row("cpu_op", "aten::add_", 100, start + 100, 10) +
              host_row("user_annotation", rank == 0 ? "gloo:send" : "gloo:recv", 100, start + 120, 20);
    }
    ranks.push_back(recording_of(rows, R"("distributedInfo":{"backend":"gloo","rank": )" + std::to_string(rank) + R"(,"world_size":2},)"));
  }
  const MergedRanks merged = merge_ranks(std::move(ranks));
  EXPECT_EQ(inconsistency(merged.trace), "");
  EXPECT_TRUE(merged.missing.empty());
  for (const MergedRank& rank : merged.ranks) {
    EXPECT_EQ(rank.communications, 20);
    EXPECT_EQ(rank.unmatched, 0);
    EXPECT_EQ(rank.clock.source, rank.rank == 0 ? ClockSource::reference : ClockSource::communications);
  }
  ASSERT_EQ(merged.trace.devices.size(), 2U);
  EXPECT_EQ(merged.trace.devices[1].name, "1@main");
  const Breakdown breakdown = break_down(merged.trace);
  const DeviceBreakdown waits = mean_over_steps(breakdown, 0), slow = mean_over_steps(breakdown, 1);
  EXPECT_EQ(waits.compute, Nanoseconds{60'000});
  EXPECT_EQ(slow.compute, Nanoseconds{90'000});
  EXPECT_NEAR(static_cast<double>(waits.causes.imbalance.count()), 30'000, 2'000);
  EXPECT_EQ(merged.trace.copies.size(), 10U);
}

}  // namespace
}  // namespace mptune::profiler
