#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "profiler/analyze/breakdown.h"
#include "profiler/analyze/quality_objection.h"
#include "profiler/base/index.h"
#include "profiler/formats/kineto.h"

namespace mptune::profiler {
namespace {

using Json = nlohmann::json;

// Traces of PyTorch's profiler that lack rows. The whole one has two steps of 50 kernels each on stream 7; kernel i lasts 80 us, one every
// 100 us, and is launched 10 us before it. Rows are numbered as in the file: steps 0 and 1, then launch and kernel in turn.
constexpr double kStart = 1.7e15;

Json row(const std::string& category, const std::string& name, double ts, double dur, const Json& args) {
  return {{"ph", "X"}, {"cat", category}, {"name", name}, {"pid", category == "kernel" ? 0 : 99},
          {"tid", 7},  {"ts", ts},        {"dur", dur},   {"args", args}};
}

Json whole() {
  Json rows = Json::array();
  for (int step : {0, 1})
    rows.push_back(row("user_annotation", "ProfilerStep#" + std::to_string(step), kStart + 5000 * step, 4900, Json::object()));
  for (int i = 0; i < 100; ++i) {
    const double start = kStart + 100 * i + 10;
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

}  // namespace
}  // namespace mptune::profiler
