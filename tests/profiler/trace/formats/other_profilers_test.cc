#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "profiler/base/error.h"
#include "profiler/trace/analyze/breakdown.h"
#include "profiler/trace/formats/chrome_events.h"
#include "profiler/trace/formats/kineto.h"
#include "tests/support/error_of.h"

namespace mptune::profiler {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

Json name_row(const char* what, int process, int thread, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

Json plain_row(int process, int thread, const Json& ts, const Json& dur, const std::string& name) {
  return {{"ph", "X"}, {"pid", process}, {"tid", thread}, {"ts", ts}, {"dur", dur}, {"name", name}, {"args", Json::object()}};
}

Trace trace_of(const Json& rows) {
  const std::string text = Json{{"traceEvents", rows}}.dump();
  TextInput input = text_in_memory(text.data(), text.size());
  return read_kineto(input);
}

Error refusal_of(const std::string& text) {
  return testing::error_of([&] {
    TextInput input = text_in_memory(text.data(), text.size());
    (void)read_kineto(input);
  });
}

// JAX on two GPUs: streams are the work; "XLA Ops" repeats it.
Json jax_rows() {
  Json rows = Json::array();
  for (int gpu : {0, 1}) {
    rows.push_back(name_row("process_name", 1 + gpu, 0, "/device:GPU:" + std::to_string(gpu)));
    rows.push_back(name_row("thread_name", 1 + gpu, 14, "Stream #14(Compute)"));
    rows.push_back(name_row("thread_name", 1 + gpu, 15, "Stream #15(MemcpyH2D)"));
    rows.push_back(name_row("thread_name", 1 + gpu, 99, "XLA Ops"));
    rows.push_back(plain_row(1 + gpu, 99, 1'000, 500, "jit_step"));
    for (int i = 0; i < 10; ++i)
      rows.push_back(plain_row(1 + gpu, 14, 1'000 + 10 * i, 5.25, i % 2 == 0 ? "fusion_1" : "ncclDevKernel_AllReduce"));
    rows.push_back(plain_row(1 + gpu, 15, 1'000, 3, "MemcpyH2D"));
  }
  rows.push_back(name_row("process_name", 7, 0, "/host:CPU"));
  rows.push_back(plain_row(7, 1, 0, 9'000, "PjitFunction(step)"));
  return rows;
}

TEST(OtherProfilers, StreamsOfJaxAreRead) {
  Json rows = jax_rows();
  for (int backward : {0, 1}) {
    const Trace trace = trace_of(rows);
    ASSERT_EQ(trace.devices.size(), 2U);
    EXPECT_EQ(trace.devices[1].name, "gpu:1");
    const DeviceBreakdown device = break_down(trace).steps.at(0).devices.at(1);
    EXPECT_EQ(device.window, Nanoseconds{95'250});
    EXPECT_EQ(device.compute + device.overlap, Nanoseconds{52'500}) << backward;
    EXPECT_EQ(device.overlap, Nanoseconds{3'000});
    EXPECT_EQ(device.causes.unexplained, device.idle) << "it holds no calls";
    std::reverse(rows.begin(), rows.end());
  }
}

// Ascend's profiler and rocprof.
TEST(OtherProfilers, TimesMayBeText) {
  const Json args = {{"device", 0}, {"stream", 7}};
  Json rows = Json::array();
  for (const char* ts : {"1699529623106750.140", "1699529623106760.140\t"})
    rows.push_back({{"ph", "X"}, {"cat", "kernel"}, {"name", "k"}, {"pid", 0}, {"ts", ts}, {"dur", "5.5"}, {"args", args}});
  const Trace trace = trace_of(rows);
  ASSERT_EQ(trace.events.size(), 2U);
  EXPECT_EQ(trace.events[1].start, Nanoseconds{10'000});
  EXPECT_EQ(trace.events[1].duration, Nanoseconds{5'500});
  for (const char* text : {"soon", "", "1.5 us", "nan", "inf", "0x10", "1 2"}) {
    rows[0]["ts"] = text;
    EXPECT_EQ(refusal_of(rows.dump()).problem(), "an event's ts is not a number") << text;
  }
}

TEST(OtherProfilers, AscendIsNamed) {
  Json rows = {name_row("process_name", 5, 0, "Ascend Hardware(NPU)"), name_row("thread_name", 5, 2, "Stream 2"),
               plain_row(5, 2, "1699529623106750.140", 20.4, "MatMul")};
  EXPECT_THAT(refusal_of(rows.dump()).problem(), HasSubstr("Ascend"));
  rows.push_back({{"ph", "X"}, {"cat", "cpu_op"}, {"name", "aten::mm"}, {"pid", 3}, {"tid", 3}, {"ts", 1}, {"dur", 5}});
  EXPECT_THAT(refusal_of(rows.dump()).problem(), HasSubstr("Ascend")) << "its host is not all there is";
}

TEST(OtherProfilers, UnknownOnesAreNamedByTheirProcesses) {
  const Json rows = {name_row("process_name", 6, 0, "GPU0"), plain_row(6, 0, "10", "5", "Cijk_Ailk_Bljk")};
  EXPECT_THAT(refusal_of(rows.dump()).problem(), HasSubstr("'GPU0'"));
  EXPECT_EQ(refusal_of("[]").problem(), "it holds no work of a GPU and no operators of the host");
}

// PyTorch's profiler on Intel's GPUs and on accelerators of its PrivateUse1 key.
TEST(OtherProfilers, DevicesHaveTheirFamilysName) {
  for (const auto& [category, device] : {std::pair("xpu_runtime", "xpu:0"), {"privateuse1_runtime", "npu:0"}, {"cuda_runtime", "cuda:0"}}) {
    Json rows = Json::array();
    rows.push_back({{"ph", "X"},
                    {"cat", category},
                    {"name", "launch"},
                    {"pid", 9},
                    {"tid", 9},
                    {"ts", 0},
                    {"dur", 1},
                    {"args", {{"correlation", 4}}}});
    rows.push_back({{"ph", "X"},
                    {"cat", "kernel"},
                    {"name", "k"},
                    {"pid", 0},
                    {"tid", "stream 3"},
                    {"ts", 2},
                    {"dur", 5},
                    {"args", {{"correlation", 4}}}});
    rows.push_back(
        {{"ph", "X"}, {"cat", "kernel"}, {"name", "k"}, {"pid", 0}, {"tid", 4}, {"ts", 3}, {"dur", 1}, {"args", Json::object()}});
    const Trace trace = trace_of(rows);
    EXPECT_EQ(trace.devices.at(0).name, device);
    EXPECT_EQ(trace.launches.at(0).event, 0);
    EXPECT_TRUE(trace.implausible.empty()) << "two streams";
  }
}

TEST(OtherProfilers, NothingToAnalyseIsRefused) {
  Json rows = Json::array();
  rows.push_back({{"ph", "X"}, {"cat", "cuda_sync"}, {"name", "s"}, {"pid", 0}, {"ts", 2}, {"dur", 5}, {"args", {{"device", 0}}}});
  EXPECT_EQ(refusal_of(rows.dump()).problem(), "it holds waits of GPUs, but no work");
  rows.push_back({{"ph", "X"}, {"cat", "kernel"}, {"name", "k"}, {"pid", 0}, {"ts", 0}, {"dur", 0}, {"args", {{"device", 0}}}});
  EXPECT_EQ(refusal_of(rows.dump()).problem(), "its work has no times: the profiler stamped them 0");
  rows = {rows.back(), {{"ph", "X"}, {"cat", "cpu_op"}, {"name", "aten::mm"}, {"pid", 3}, {"tid", 3}, {"ts", 1}, {"dur", 5}}};
  EXPECT_EQ(refusal_of(rows.dump()).problem(), "its work has no times: the profiler stamped them 0") << "its host is not all there is";
}

TEST(OtherProfilers, WhatIsNotJsonSaysWhere) {
  EXPECT_EQ(refusal_of("[\n {\"name\": \"a\"},\n {\"name\": \"{\"b\": 1}\"}]").problem(),
            "it is not valid JSON at line 3, column 14, near ' {\"name\": \"{\"b\": 1}\"}]'");
  EXPECT_EQ(refusal_of("[{}").problem(), "it is not valid JSON: it ends at line 1, column 3, before its last bracket");
  EXPECT_EQ(refusal_of("[]\n]").problem(), "it is not valid JSON at line 2, column 1, near ']'");
  EXPECT_EQ(refusal_of("hello").problem(), "it is not valid JSON at line 1, column 1, near 'hello'");
}

// Slow reference: line and column counted from the start of the text, for a wrong byte at any place, in blocks of any size.
TEST(OtherProfilers, WhatIsNotJsonSaysWhereInLongTexts) {
  std::string text = "[";
  for (int i = 0; i < 6'000; ++i)
    text += std::string(i == 0 ? "" : ",") + (i % 7 == 0 ? "\n" : " ") + "{\"name\": \"row " + std::to_string(i) + "\"}";
  text += "]";
  for (std::size_t at = 1; at < text.size(); at += 1'237) {
    const std::size_t place = text.find('{', at);
    if (place == std::string::npos) break;
    std::string wrong = text;
    wrong[place] = '!';
    std::int64_t line = 1, column = 0;
    for (std::size_t i = 0; i <= place; ++i) {
      ++column;
      if (text[i] == '\n') ++line, column = 0;
    }
    const std::string problem = refusal_of(wrong).problem();
    EXPECT_THAT(problem, HasSubstr("at line " + std::to_string(line) + ", column " + std::to_string(column) + ", near '"));
    EXPECT_THAT(problem, HasSubstr("!\"name\""));
  }
}

}  // namespace
}  // namespace mptune::profiler
