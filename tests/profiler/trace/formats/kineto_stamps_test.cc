#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "profiler/base/index.h"
#include "profiler/trace/analyze/breakdown.h"
#include "profiler/trace/analyze/links.h"
#include "profiler/trace/analyze/quality_objection.h"
#include "profiler/trace/formats/kineto.h"
#include "tests/support/error_of.h"

namespace mptune::profiler {
namespace {

using Json = nlohmann::json;
using Fault = ImplausibleTime::Fault;
using Loss = QualityObjection::Loss;

// Kineto traces of kernels with odd stamps. Times are microseconds. Kernel i of 60 lasts 500, one every 1000 on stream 7; its call comes 20
// before it.
struct StampedJob {
  std::int64_t origin = 1'000'000;
  std::string call = "cudaLaunchKernel";

  [[nodiscard]] Json rows() const {
    Json all = Json::array();
    for (int i = 0; i < 60; ++i) {
      const std::int64_t start = origin + 1'000 * i;
      const Json of = {{"device", 0}, {"stream", 7}, {"correlation", 100 + i}};
      all.push_back(
          {{"ph", "X"}, {"cat", "cuda_runtime"}, {"name", call}, {"pid", 9}, {"tid", 9}, {"ts", start - 20}, {"dur", 5}, {"args", of}});
      all.push_back({{"ph", "X"}, {"cat", "kernel"}, {"name", "gemm"}, {"pid", 0}, {"tid", 7}, {"ts", start}, {"dur", 500}, {"args", of}});
    }
    return all;
  }
};

Json& kernel_of(Json& rows, int i) {
  return rows[as_index(2 * i + 1)];
}

Trace read_stamped(const Json& rows) {
  const std::string text = rows.dump();
  TextInput input = text_in_memory(text.data(), text.size());
  return read_kineto(input);
}

Nanoseconds computing(const Trace& trace) {
  return mean_over_steps(break_down(trace), 0).compute;
}

TEST(KinetoStamps, AKernelThatOverrunsTheNextIsCut) {
  Json rows = StampedJob{}.rows();
  kernel_of(rows, 20)["dur"] = 20'000;
  const Trace trace = read_stamped(rows);
  EXPECT_EQ(computing(trace), Nanoseconds{1'000 * (60 * 500 + 500)});
  const ImplausibleTime record{Fault::overrun, "kernel 'gemm'", "cuda:0, stream 7",
                               "ts 1020000.000, dur 20000.000 [us]; the next has ts 1021000.000, dur 500.000 [us]"};
  EXPECT_EQ(quality_objection(trace), (QualityObjection{Loss::implausible, 0, record}));
}

// ROCm names its calls otherwise.
TEST(KinetoStamps, OverrunsOfEveryKernelAreFound) {
  for (const char* call : {"hipLaunchKernel", "hipExtModuleLaunchKernel", "cudaLaunchKernel"}) {
    Json rows = StampedJob{.call = call}.rows();
    for (int i = 0; i < 60; ++i) kernel_of(rows, i)["dur"] = 1'005;
    EXPECT_EQ(read_stamped(rows).implausible.size(), kMostImplausible) << call;
  }
}

TEST(KinetoStamps, OverlapsOfNanosecondsAreNone) {
  Json rows = StampedJob{}.rows();
  for (int i = 0; i < 60; ++i) kernel_of(rows, i)["dur"] = 1'000.027;
  EXPECT_EQ(quality_objection(read_stamped(rows)), std::nullopt);
}

TEST(KinetoStamps, AKernelThatMayBeginEarlyIsOverrunByNone) {
  Json rows = StampedJob{.call = "cudaLaunchKernelExC"}.rows();
  for (int i = 0; i < 60; ++i) kernel_of(rows, i)["dur"] = 1'200;
  EXPECT_EQ(quality_objection(read_stamped(rows)), std::nullopt);
}

TEST(KinetoStamps, StreamsOfTwoContextsAreTwo) {
  Json rows = StampedJob{}.rows();
  for (int i = 0; i < 60; ++i) kernel_of(rows, i)["args"]["context"] = 1 + i % 2;
  for (int i = 0; i < 60; ++i) kernel_of(rows, i)["dur"] = 1'900;
  EXPECT_EQ(quality_objection(read_stamped(rows)), std::nullopt);
}

// Both stamps 0: the profiler could not get the times.
TEST(KinetoStamps, OfZeroAreNamedSo) {
  Json rows = StampedJob{}.rows();
  for (int i = 10; i < 30; ++i) {
    kernel_of(rows, i)["ts"] = 0;
    kernel_of(rows, i)["dur"] = 0;
  }
  const Trace trace = read_stamped(rows);
  EXPECT_EQ(trace.events.size(), 40U);
  EXPECT_EQ(trace.quality.zero_stamped, 20);
  EXPECT_EQ(trace.quality.unmatched, 0);
  EXPECT_EQ(trace.events.front().start, Nanoseconds{20'000}) << "counted from the first call";
  EXPECT_EQ(quality_objection(trace)->loss, Loss::zero_stamped);
}

TEST(KinetoStamps, AStartOfZeroAloneIsOne) {
  Json rows = StampedJob{}.rows();
  for (int i = 10; i < 30; ++i) kernel_of(rows, i)["ts"] = 0;
  EXPECT_EQ(read_stamped(rows).quality.zero_stamped, 20);
  EXPECT_EQ(read_stamped(StampedJob{.origin = 0}.rows()).quality.zero_stamped, 0) << "a recording may begin at 0";
}

TEST(KinetoStamps, OneThatStartsAtZeroIsCounted) {
  for (const bool lasts : {false, true}) {
    Json rows = StampedJob{}.rows();
    kernel_of(rows, 20)["ts"] = 0;
    if (!lasts) kernel_of(rows, 20)["dur"] = 0;
    const Trace trace = read_stamped(rows);
    EXPECT_EQ(trace.quality.zero_stamped, 1);
    EXPECT_TRUE(trace.implausible.empty());
  }
}

TEST(KinetoStamps, OfWorkThatAllStartsAtZeroTheStampsAreNamed) {
  Json rows = StampedJob{}.rows();
  for (int i = 0; i < 60; ++i) kernel_of(rows, i)["ts"] = 0;
  const Error error = testing::error_of([&] { (void)read_stamped(rows); });
  EXPECT_EQ(error.problem(), "its work has no times: the profiler stamped them 0");
}

TEST(KinetoStamps, AKernelShortlyBeforeItsCallHasIt) {
  for (const int early : {1, 4, 9}) {
    Json rows = StampedJob{}.rows();
    for (int i = 0; i < 60; i += 3) kernel_of(rows, i)["ts"] = rows[as_index(2 * i)]["ts"].get<int>() - early;
    const Trace trace = read_stamped(rows);
    EXPECT_EQ(trace.quality.unmatched, 0) << early;
    EXPECT_EQ(quality_objection(trace), std::nullopt) << early;
    EXPECT_EQ(worst_violation(trace), Nanoseconds{1'000 * early}) << "and it is said";
  }
  Json rows = StampedJob{}.rows();
  for (int i = 0; i < 60; i += 3) kernel_of(rows, i)["ts"] = rows[as_index(2 * i)]["ts"].get<int>() - 300;
  EXPECT_EQ(quality_objection(read_stamped(rows))->loss, Loss::unmatched);
}

TEST(KinetoStamps, RowsInAnyOrderBreakDownAlike) {
  std::mt19937 random(47);
  Json rows = StampedJob{}.rows();
  for (int i = 0; i < 60; i += 4) kernel_of(rows, i)["args"]["stream"] = 8;
  const Breakdown first = break_down(read_stamped(rows));
  for (int round = 0; round < 20; ++round) {
    std::shuffle(rows.begin(), rows.end(), random);
    EXPECT_EQ(break_down(read_stamped(rows)), first) << round;
  }
}

}  // namespace
}  // namespace mptune::profiler
