#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "profiler/base/index.h"
#include "profiler/trace/analyze/breakdown.h"
#include "profiler/trace/analyze/quality_objection.h"
#include "profiler/trace/formats/kineto.h"

namespace mptune::profiler {
namespace {

using Json = nlohmann::json;

// Traces of PyTorch's profiler that lack rows. The whole one has two steps of 50 kernels each on stream 7; kernel i lasts 80 us, one every
// 100 us, and is launched 10 us before it. Rows are numbered as in the file: steps 0 and 1, then launch and kernel in turn.
constexpr std::int64_t kStart = 1'700'000'000'000'000;

Json row(const std::string& category, const std::string& name, const Json& ts, int dur, const Json& args) {
  return {{"ph", "X"}, {"cat", category}, {"name", name}, {"pid", category == "kernel" ? 0 : 99},
          {"tid", 7},  {"ts", ts},        {"dur", dur},   {"args", args}};
}

Json whole() {
  Json rows = Json::array();
  for (int step : {0, 1})
    rows.push_back(row("user_annotation", "ProfilerStep#" + std::to_string(step), kStart + 5000 * step, 4990, Json::object()));
  for (int i = 0; i < 100; ++i) {
    const std::int64_t start = kStart + 100 * i + 10;
    rows.push_back(row("cuda_runtime", "cudaLaunchKernel", start - 10, 5, {{"correlation", 500 + i}}));
    rows.push_back(row("kernel", "gemm", start, 80, {{"device", 0}, {"stream", 7}, {"correlation", 500 + i}}));
  }
  return rows;
}

Trace read(const Json& rows) {
  const std::string text = rows.dump();
  TextInput input = text_in_memory(text.data(), text.size());
  return read_kineto(input);
}

bool is_of(const Json& row, const std::string& category, int first, int last) {
  const int correlation = row["args"].value("correlation", -1);
  return row["cat"] == category && correlation >= first && correlation < last;
}

Json without(Json rows, const std::string& category, int first, int last) {
  rows.erase(std::remove_if(rows.begin(), rows.end(), [&](const Json& one) { return is_of(one, category, first, last); }), rows.end());
  return rows;
}

TEST(IncompleteKineto, TheWholeOneHasAVerdict) {
  const Trace trace = read(whole());
  EXPECT_EQ(trace.quality, (TraceQuality{.untagged = 100}));
  EXPECT_EQ(trace.steps.size(), 2U);
  EXPECT_EQ(quality_objection(trace), std::nullopt);
}

TEST(IncompleteKineto, CopiesOfUnifiedMemoryNeedNoLaunch) {
  Json rows = whole();
  for (const char* name : {"Unified Memory Memcpy HtoD", "Memcpy UVM_DTOH", "Unified Host-to-Device"})
    rows.push_back(row("gpu_memcpy", name, kStart + 100, 5, {{"device", 0}, {"stream", 0}, {"bytes", 4096}}));
  rows.push_back(row("gpu_memcpy", "Memcpy HtoD (Managed -> Device)", kStart + 300, 5, {{"device", 0}, {"stream", 9}, {"bytes", 4096}}));
  const Trace trace = read(rows);
  EXPECT_EQ(trace.quality, (TraceQuality{.untagged = 104, .unmatched = 1})) << "a program asked for the last copy";
  EXPECT_EQ(trace.copies.at(0), (Copy{.bytes = 4096, .source = -1, .destination = 0, .unified = true}));
  EXPECT_EQ(trace.copies.at(1), (Copy{.bytes = 4096, .source = 0, .destination = -1, .unified = true}));
  EXPECT_EQ(trace.copies.at(2), (Copy{.bytes = 4096, .source = -1, .destination = 0, .unified = true}));
}

// The profiler began while kernels that were launched before it still ran.
TEST(IncompleteKineto, WorkLaunchedBeforeTheRecordingLacksNothing) {
  const Trace trace = read(without(whole(), "cuda_runtime", 0, 520));
  EXPECT_EQ(trace.quality, (TraceQuality{.untagged = 100, .cut_off = 20}));
  EXPECT_EQ(quality_objection(trace), std::nullopt);
}

TEST(IncompleteKineto, LaunchesMissingWithinAStepForbidTheVerdict) {
  const Trace trace = read(without(whole(), "cuda_runtime", 520, 530));
  EXPECT_EQ(trace.quality, (TraceQuality{.untagged = 100, .unmatched = 10}));
  EXPECT_TRUE(quality_objection(trace));
}

// No step holds the time of work that ended before the first one began.
TEST(IncompleteKineto, LaunchesMissingBeforeTheFirstStepDoNotMatter) {
  Json rows = without(whole(), "cuda_runtime", 520, 530);
  rows.erase(rows.begin());
  const Trace trace = read(rows);
  EXPECT_EQ(trace.steps.size(), 1U);
  EXPECT_EQ(trace.quality, (TraceQuality{.untagged = 100, .cut_off = 10}));
  EXPECT_EQ(quality_objection(trace), std::nullopt);
}

// The recording ended before the last step's kernels did: nobody knows how long that step was.
TEST(IncompleteKineto, AStepWhoseWorkLiesAfterTheRecordingIsLeftOut) {
  const Trace trace = read(without(whole(), "kernel", 580, 600));
  EXPECT_EQ(trace.steps.size(), 1U);
  EXPECT_EQ(trace.quality, (TraceQuality{.untagged = 80, .cut_off = 20}));
  EXPECT_EQ(quality_objection(trace), std::nullopt);
  EXPECT_EQ(break_down(trace).steps.size(), 1U);
}

TEST(IncompleteKineto, WithoutACompleteStepThereIsNoVerdict) {
  Json rows = without(whole(), "kernel", 580, 600);
  rows.erase(rows.begin());
  const Trace trace = read(rows);
  EXPECT_EQ(trace.steps.size(), 1U) << "what there is is shown";
  EXPECT_EQ(trace.quality.unmatched, 20);
  EXPECT_TRUE(quality_objection(trace));
}

// Calls during the capture of a graph start nothing; others after them do.
TEST(IncompleteKineto, LaunchesWithoutWorkInTheMiddleEndNoStep) {
  const Trace trace = read(without(whole(), "kernel", 550, 560));
  EXPECT_EQ(trace.steps.size(), 2U);
  EXPECT_EQ(trace.quality, (TraceQuality{.untagged = 90}));
}

// Index of the row of the kernel with this correlation.
std::size_t kernel(const Json& rows, int correlation) {
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (is_of(rows[i], "kernel", correlation, correlation + 1)) return i;
  ADD_FAILURE() << correlation;
  return 0;
}

using Fault = ImplausibleTime::Fault;

// The row is named and left out, and there is no verdict.
void expect_only(const Trace& trace, const ImplausibleTime& record, std::size_t events) {
  EXPECT_EQ(trace.implausible, std::vector{record}) << (trace.implausible.empty() ? "none" : trace.implausible[0].times);
  EXPECT_EQ(trace.quality.dropped, 1);
  EXPECT_EQ(trace.events.size(), events);
  EXPECT_EQ(quality_objection(trace), (QualityObjection{QualityObjection::Loss::implausible, 0, record}));
}

TEST(ImplausibleKineto, AKernelThatEndsBeforeItStarts) {
  Json rows = whole();
  rows[kernel(rows, 530)]["dur"] = -3;
  expect_only(read(rows), {Fault::backward, "kernel 'gemm'", "cuda:0, stream 7", "ts 1700000000003010.000, dur -3.000 [us]"}, 99);
}

TEST(ImplausibleKineto, AKernelThatLastsOverMostOfAStep) {
  Json rows = whole();
  rows[kernel(rows, 550)]["dur"] = 3000;
  expect_only(read(rows), {Fault::too_long, "kernel 'gemm'", "cuda:0, stream 7", "ts 1700000000005010.000, dur 3000.000 [us]"}, 99);
}

TEST(ImplausibleKineto, AKernelFarInThePast) {
  Json rows = whole();
  rows[kernel(rows, 550)]["ts"] = 5;
  expect_only(read(rows), {Fault::far, "kernel 'gemm'", "cuda:0, stream 7", "ts 5.000, dur 80.000 [us]"}, 99);
}

TEST(ImplausibleKineto, AKernelInTheFuture) {
  Json rows = whole();
  rows[kernel(rows, 599)]["ts"] = kStart + 60'000'000;
  Trace trace = read(rows);
  expect_only(trace, {Fault::alone, "kernel 'gemm'", "cuda:0, stream 7", "ts 1700000060000000.000, dur 80.000 [us]"}, 99);
  rows[kernel(rows, 599)]["ts"] = std::int64_t{4'000'000'000'000'000'000};
  expect_only(read(rows), {Fault::far, "kernel 'gemm'", "cuda:0, stream 7", "ts 4000000000000000000 [us]"}, 99);
}

TEST(ImplausibleKineto, AStepOrACall) {
  Json rows = whole();
  rows[0]["ts"] = 5;
  expect_only(read(rows), {Fault::far, "'ProfilerStep#0'", "thread 7", "ts 5.000, dur 4990.000 [us]"}, 100);
  rows = whole();
  rows[1]["dur"] = -1;
  expect_only(read(rows), {Fault::backward, "'ProfilerStep#1'", "thread 7", "ts 1700000000005000.000, dur -1.000 [us]"}, 100);
  rows = whole();
  rows.push_back(row("cuda_runtime", "cudaMalloc", 7, 1, Json::object()));
  expect_only(read(rows), {Fault::far, "call 'cudaMalloc'", "thread 7", "ts 7.000, dur 1.000 [us]"}, 100);
}

TEST(ImplausibleKineto, OtherRangesForbidNoVerdict) {
  Json rows = whole();
  rows.push_back(row("user_annotation", "forward", 7, 1, Json::object()));
  rows.push_back(row("user_annotation", "forward", kStart, -1, Json::object()));
  rows.push_back(row("cpu_op", "aten::mm", 1e300, 1, Json::object()));
  const Trace trace = read(rows);
  EXPECT_TRUE(trace.implausible.empty());
  EXPECT_EQ(trace.quality.dropped, 2);
  rows.erase(rows.size() - 2);
  EXPECT_EQ(quality_objection(read(rows)), std::nullopt);
}

}  // namespace
}  // namespace mptune::profiler
