#include "profiler/trace/formats/kineto.h"
#include "profiler/base/index.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "profiler/trace/analyze/breakdown.h"
#include "profiler/trace/formats/any_trace.h"
#include "profiler/trace/store/tables.h"
#include "tests/profiler/trace/formats/files.h"
#include "tests/support/hand_trace.h"

namespace mptune::profiler {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What PyTorch 2.x writes for one step on two GPUs of one process, cut to what matters; times as they really look.
constexpr const char* kRecorded = R"json({
  "schemaVersion": 1,
  "deviceProperties": [
    {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 84942979072, "computeMajor": 9, "numSms": 132},
    {"id": 1, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 84942979072}],
  "cuda_runtime_version": 13000, "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1},
  "baseTimeNanoseconds": 1700000000000000000,
  "traceEvents": [
  {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 99, "tid": 7, "ts": 5000000000000.001, "dur": 9.5, "args": {"External id": 1}},
  {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "pid": 99, "tid": 7, "ts": 5000000000000.000, "dur": 50.0, "args": {}},
  {"ph": "X", "cat": "user_annotation", "name": "forward", "pid": 99, "tid": 7, "ts": 5000000000001.000, "dur": 8.0},
  {"ph": "X", "cat": "gpu_user_annotation", "name": "ProfilerStep#3", "pid": 1, "tid": 7, "ts": 5000000000002, "dur": 80},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 99, "tid": 7, "ts": 5000000000001.5, "dur": 1.25, "args": {"cbid": 211, "correlation": 17}},
  {"ph": "X", "cat": "kernel", "name": "sgemm", "pid": 1, "tid": 7, "ts": 5000000000010.125, "dur": 20.001,
   "args": {"queued": 0, "device": 1, "context": 1, "stream": 7, "correlation": 17, "registers per thread": 32, "shared memory": 1024,
            "blocks per SM": 0.5, "grid": [4, 2, 1], "block": [128, 1, 1], "est. achieved occupancy %": 10}},
  {"ph": "s", "id": 17, "pid": 99, "tid": 7, "ts": 5000000000001.5, "cat": "ac2g", "name": "ac2g"},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "pid": 99, "tid": 7, "ts": 5000000000003, "dur": 1, "args": {"correlation": 18}},
  {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy PtoP (Device -> Device)", "pid": 1, "tid": 20, "ts": 5000000000030.126, "dur": 30.0,
   "args": {"device": 1, "context": 1, "stream": 20, "correlation": 18, "bytes": 4096, "fromDevice": 1, "inDevice": 1, "toDevice": 0}},
  {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "pid": 0, "tid": 7, "ts": 5000000000030, "dur": 5, "args": {"device": 0, "stream": 7}},
  {"ph": "X", "cat": "gpu_memset", "name": "Memset (Device)", "pid": 0, "tid": 7, "ts": 5000000000034.999, "dur": 2, "args": {"device": 0, "stream": 7, "bytes": 8}},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "pid": 99, "tid": 7, "ts": 5000000000040, "dur": 30, "args": {"correlation": 19}},
  {"ph": "X", "cat": "cuda_sync", "name": "Stream Sync", "pid": 1, "tid": 7, "ts": 5000000000040, "dur": 30, "args": {"device": 1, "stream": 7, "correlation": 19}},
  {"ph": "i", "s": "t", "name": "Record Window End", "pid": "", "tid": "", "ts": 5000000000100},
  {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler", "ts": 5000000000000, "dur": 100}
  ], "traceName": "t.json", "displayTimeUnit": "ms"})json";

Trace kineto_of(const std::string& text) {
  TextInput input = text_in_memory(text.data(), text.size());
  return read_kineto(input);
}

TEST(Kineto, ReadsWhatItRecords) {
  const Trace trace = kineto_of(kRecorded);
  EXPECT_EQ(inconsistency(trace), "");
  ASSERT_EQ(trace.devices.size(), 2U);
  EXPECT_EQ(trace.devices[0].name, "cuda:0");
  EXPECT_EQ(trace.devices[1].description, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(trace.devices[1].memory_bytes, 84942979072);
  EXPECT_EQ(trace.started_utc_ns, 1705000000000000000);
  std::vector<std::string> rows;
  for (const Event& event : trace.events)
    rows.push_back(std::to_string(event.start.count()) + "+" + std::to_string(event.duration.count()) + " " + to_string(event.kind) + " " +
                   std::to_string(event.device) + "/" + std::to_string(event.lane));
  // The memset begins a nanosecond before its predecessor on the stream ends: that much is rounding.
  EXPECT_THAT(rows, ElementsAre("10125+20001 kernel 1/0", "30000+5000 collective 0/0", "30126+30000 copy 1/1", "35000+1999 memset 0/0",
                                "40000+30000 sync 1/2"));
  EXPECT_EQ(trace.copies, (std::vector<Copy>{{.bytes = 4096, .source = 1, .destination = 0}}));
  EXPECT_EQ(trace.kernels[0], (Kernel{.context = 1,
                                      .stream = 7,
                                      .grid = {4, 2, 1},
                                      .block = {128, 1, 1},
                                      .registers_per_thread = 32,
                                      .static_shared_bytes = 0,
                                      .dynamic_shared_bytes = 1024}));
}

TEST(Kineto, ReadsLaunchesStepsAndRanges) {
  const Trace trace = kineto_of(kRecorded);
  ASSERT_EQ(trace.launches.size(), 3U);
  EXPECT_EQ(trace.launches[0].event, 0);
  EXPECT_EQ(trace.launches[0].start, Nanoseconds{1500});
  EXPECT_EQ(trace.launches[0].end, Nanoseconds{2750});
  EXPECT_EQ(trace.launches[1].event, 2);
  EXPECT_EQ(trace.launches[2].event, -1);
  EXPECT_EQ(trace.names[as_index(trace.launches[2].name)], "cudaStreamSynchronize");
  // The copy it launched ends after the annotation.
  EXPECT_EQ(trace.steps, (std::vector<StepWindow>{{.step = 3, .start = Nanoseconds{0}, .end = Nanoseconds{60126}}}));
  ASSERT_EQ(trace.ranges.size(), 2U);
  EXPECT_EQ(trace.ranges[0].kind, EventKind::step);
  EXPECT_EQ(trace.ranges[1].kind, EventKind::action);
  EXPECT_EQ(trace.ranges[1].device, 1);
  EXPECT_EQ(trace.quality, (TraceQuality{.untagged = 5, .unmatched = 2}));  // two events on device 0 were never launched
}

TEST(Kineto, ReadsTheFormOf2021) {
  const Trace trace = kineto_of(R"json({"schemaVersion": 1, "traceEvents": [
    {"ph": "X", "cat": "Operator", "name": "ProfilerStep#5", "pid": 3, "tid": "3", "ts": 1621401187223000, "dur": 900},
    {"ph": "X", "cat": "Runtime", "name": "cudaLaunchKernel", "pid": 3, "tid": "3", "ts": 1621401187223005, "dur": 10, "args": {"correlation": 335}},
    {"ph": "X", "cat": "Kernel", "name": "k", "pid": 0, "tid": "stream 7", "ts": 1621401187223197, "dur": 2, "args": {"device": 0, "stream": 7, "correlation": 335}},
    {"ph": "X", "cat": "Memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "pid": 0, "tid": "stream 7", "ts": 1621401187223200, "dur": 4, "args": {"stream": 7}}]})json");
  ASSERT_EQ(trace.events.size(), 2U);
  EXPECT_EQ(trace.events[0].start, Nanoseconds{197000});
  EXPECT_EQ(trace.copies, (std::vector<Copy>{{.bytes = 0, .source = -1, .destination = 0}}));
  EXPECT_EQ(trace.launches.at(0).event, 0);
  EXPECT_EQ(trace.steps.at(0).step, 5);
  EXPECT_EQ(trace.started_utc_ns, 1621401187223000000);
}

TEST(Kineto, TimesKeepTheirDigits) {
  const auto times = [](const std::string& ts, const std::string& dur) {
    const Trace trace = kineto_of(R"([{"ph":"X","cat":"kernel","name":"a","pid":0,"ts":)" + ts + R"(,"dur":)" + dur +
                                  R"(},{"ph":"X","cat":"kernel","name":"b","pid":1,"ts":0,"dur":0.001}])");
    const Event& first = trace.events[trace.names[as_index(trace.events[0].name)] == "a" ? 0 : 1];
    return std::pair(first.start.count(), first.duration.count());
  };
  EXPECT_EQ(times("1234567890123.457", "0.001"), (std::pair<long, long>(1234567890123457, 1)));
  EXPECT_EQ(times("12", "3"), (std::pair<long, long>(12000, 3000)));
  EXPECT_EQ(times("0.0005", "1.9996"), (std::pair<long, long>(1, 2000)));
  EXPECT_EQ(times("1.5e3", "2E-3"), (std::pair<long, long>(1500000, 2)));
}

TEST(Kineto, AGraphLaunchStartsSeveral) {
  const Trace trace = kineto_of(R"([
    {"ph":"X","cat":"cuda_runtime","name":"cudaGraphLaunch","pid":9,"tid":9,"ts":0,"dur":1,"args":{"correlation":4}},
    {"ph":"X","cat":"kernel","name":"a","pid":0,"ts":2,"dur":1,"args":{"device":0,"stream":7,"correlation":4}},
    {"ph":"X","cat":"kernel","name":"b","pid":0,"ts":3,"dur":1,"args":{"device":0,"stream":7,"correlation":4}}])");
  ASSERT_EQ(trace.launches.size(), 2U);
  EXPECT_EQ(trace.launches[0].event, 0);
  EXPECT_EQ(trace.launches[1].event, 1);
  EXPECT_NE(trace.launches[0].correlation, trace.launches[1].correlation);
  EXPECT_EQ(trace.quality.unmatched, 0);
}

std::string row(const std::string& category, int stream, int start, int duration) {
  return R"({"ph":"X","cat":")" + category + R"(","name":"x","pid":0,"ts":)" + std::to_string(start) + R"(,"dur":)" +
         std::to_string(duration) + R"(,"args":{"stream":)" + std::to_string(stream) + "}},";
}

std::vector<std::string> lanes_of(const Trace& trace) {
  std::vector<std::string> rows;
  for (const Event& event : trace.events)
    rows.push_back(std::string(to_string(event.kind)) + " " + std::to_string(event.start.count() / 1000) + "+" +
                   std::to_string(event.duration.count() / 1000) + " " + std::to_string(event.lane));
  return rows;
}

TEST(Kineto, TheBusiestStreamIsTheComputeLane) {
  std::string text = "[" + row("cuda_sync", 7, 0, 100) + row("gpu_memcpy", 9, 1, 200) + row("kernel", 13, 2, 10) + row("kernel", 7, 20, 50);
  text.back() = ']';
  EXPECT_THAT(lanes_of(kineto_of(text)), ElementsAre("sync 0+100 1", "copy 1+200 2", "kernel 2+10 3", "kernel 20+50 0"));
}

// Threads wait at once, and kernels may be launched to overlap: neither loses time.
TEST(Kineto, OverlappingEventsOfAStreamGetAnotherLane) {
  std::string text = "[" + row("cuda_sync", 7, 0, 100) + row("kernel", 7, 5, 20) + row("kernel", 7, 15, 20) + row("cuda_sync", 7, 20, 50) +
                     row("kernel", 7, 30, 5) + row("kernel", 7, 40, 5);
  text.back() = ']';
  const Trace trace = kineto_of(text);
  EXPECT_THAT(lanes_of(trace),
              ElementsAre("sync 0+100 1", "kernel 5+20 0", "kernel 15+20 2", "sync 20+50 3", "kernel 30+5 0", "kernel 40+5 0"));
  EXPECT_EQ(trace.quality.dropped, 0);
}

class KinetoFiles : public testing::Files {
 protected:
  // Busy time of one file's device by its events alone, in ns.
  static std::int64_t total_of(const Json& file, const std::string& category) {
    double sum = 0;
    for (const Json& row : file["traceEvents"])
      if (row.value("cat", "") == category) sum += row["dur"].get<double>() * 1000;
    return std::llround(sum);
  }
};

TEST_F(KinetoFiles, WritesOneFilePerDevice) {
  const Trace trace = testing::hand_trace();
  const auto files = write_kineto(trace, path("run.json"));
  EXPECT_EQ(files, (std::vector<std::string>{path("run.rank0.json"), path("run.rank1.json")}));
  EXPECT_EQ(count_files(), 2);
  EXPECT_THAT(bytes(files[1]), HasSubstr("\"rank\": 1,"));
  const Json first = Json::parse(bytes(files[0]));
  EXPECT_EQ(first["baseTimeNanoseconds"], trace.started_utc_ns);
  EXPECT_EQ(total_of(first, "kernel"), 10 + 10 + 5 + 10 + 10 + 3 + 7);
  EXPECT_EQ(total_of(first, "gpu_memcpy"), 6);
  const Json second = Json::parse(bytes(files[1]));
  EXPECT_EQ(total_of(second, "kernel"), 44 + 5);
  EXPECT_EQ(total_of(second, "gpu_memset"), 1);
  EXPECT_EQ(total_of(second, "user_annotation"), 100 + 58);
  for (const Json& file : {first, second}) {
    for (const Json& row : file["traceEvents"]) {
      EXPECT_NE(row.value("cat", ""), "cuda_sync");
      if (row["args"].contains("stream")) {
        EXPECT_GT(row["args"]["stream"], 0);
      }
    }
  }
}

TEST_F(KinetoFiles, RangesAreOnTheThreadThatLaunchesMostOfTheComputing) {
  Trace trace = testing::hand_trace();
  for (Launch& launch : trace.launches)
    if (trace.events[as_index(launch.event)].kind == EventKind::memset) launch.thread = 0;
  const Json file = Json::parse(bytes(write_kineto(trace, path("run.json"))[1]));
  std::map<std::string, int> threads;
  for (const Json& row : file["traceEvents"]) threads[row["name"]] = row["tid"];
  EXPECT_EQ(threads["1B0"], 1'000'002);
}

// What another program makes of one device's file has to be what we make of the device.
TEST_F(KinetoFiles, ReadBackTheyMeanTheSame) {
  std::mt19937 random(4);
  for (int round = 0; round < 20; ++round) {
    const Trace trace = testing::random_trace(random, 3, 200);
    const Breakdown whole = break_down(trace);
    const auto files = write_kineto(trace, path("random.json"));
    for (std::size_t device = 0; device < files.size(); ++device) {
      const Trace read = read_kineto(files[device]);
      ASSERT_EQ(inconsistency(read), "");
      ASSERT_EQ(read.steps.size(), trace.steps.size());
      std::int64_t written = 0;
      std::int64_t found = 0;
      for (const Event& event : trace.events)
        if (event.device == static_cast<int>(device) && (is_compute(event.kind) || event.kind == EventKind::copy))
          written += event.duration.count();
      for (const Event& event : read.events) found += event.duration.count();
      EXPECT_EQ(found, written);
    }
  }
}

TEST_F(KinetoFiles, NamesAreEscaped) {
  Trace trace = testing::hand_trace();
  trace.names[0] = "a\"b\\c\n\x01\xff{}";
  trace.devices[0].name = "cpu:\"0\"";
  const auto files = write_kineto(trace, path("run.json"));
  EXPECT_EQ(Json::parse(bytes(files[0]))["deviceProperties"][0]["name"], "cpu:\"0\"");
}

}  // namespace
}  // namespace mptune::profiler
