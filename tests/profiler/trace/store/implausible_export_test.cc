#include <gmock/gmock.h>

#include <string>

#include "profiler/base/error.h"
#include "profiler/trace/analyze/quality_objection.h"
#include "tests/profiler/trace/store/foreign_export.h"

namespace mptune::profiler {
namespace {

using Fault = ImplausibleTime::Fault;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Exports of Nsight Systems with a row whose times can't be right.
class ImplausibleExport : public testing::ForeignExport {
 protected:
  // The row is named and left out, and there is no verdict.
  void expect_only(const ImplausibleTime& record, std::size_t events) const {
    const Trace trace = read();
    EXPECT_THAT(trace.implausible, ElementsAre(record)) << ::testing::PrintToString(trace.implausible.size());
    EXPECT_EQ(trace.quality.dropped, 1);
    EXPECT_EQ(trace.events.size(), events);
    EXPECT_EQ(quality_objection(trace), (QualityObjection{QualityObjection::Loss::implausible, 0, record}));
  }
};

TEST_F(ImplausibleExport, AKernelThatEndsBeforeItStarts) {
  run("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 1 WHERE correlationId = 1030");
  expect_only({Fault::backward, "kernel 'gemm'", "cuda:0, stream 7", "start 8000000, end 7999999 [ns]"}, 99);
}

TEST_F(ImplausibleExport, AKernelThatLastsOverMostOfTheRecording) {
  run("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 14000000 WHERE correlationId = 1010");
  expect_only({Fault::too_long, "kernel 'gemm'", "cuda:0, stream 7", "start 6000000, end 14000000 [ns]"}, 99);
}

TEST_F(ImplausibleExport, AKernelThatStartsAtZeroOrLong) {
  run("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = start + 1000000000000000000, end = end + 1000000000000000000;"
      "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET start = start + 1000000000000000000, end = end + 1000000000000000000;"
      "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 0 WHERE correlationId = 1050");
  expect_only({Fault::far, "kernel 'gemm'", "cuda:0, stream 7", "start 0, end 1000000000010080000 [ns]"}, 99);
  run("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 80000 WHERE correlationId = 1050");
  expect_only({Fault::far, "kernel 'gemm'", "cuda:0, stream 7", "start 0, end 80000 [ns]"}, 99);
}

TEST_F(ImplausibleExport, AKernelInTheFuture) {
  run("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 3000000000000000000, end = 3000000000000080000 WHERE correlationId = 1099");
  expect_only({Fault::far, "kernel 'gemm'", "cuda:0, stream 7", "start 3000000000000000000, end 3000000000000080000 [ns]"}, 99);
  run("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 9223372036854775806, end = 9223372036854775807 WHERE correlationId = 1099");
  expect_only({Fault::far, "kernel 'gemm'", "cuda:0, stream 7", "start 9223372036854775806, end 9223372036854775807 [ns]"}, 99);
  run("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 1000000000000, end = 1000000080000 WHERE correlationId = 1099");
  expect_only({Fault::alone, "kernel 'gemm'", "cuda:0, stream 7", "start 1000000000000, end 1000000080000 [ns]"}, 99);
}

TEST_F(ImplausibleExport, ACopyAndAMemset) {
  run("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (7000000, 6000000, 1, 1, 9, 1020, 0x1000001000000, 64, 1, NULL, NULL)");
  expect_only({Fault::backward, "copy", "cuda:1, stream 9", "start 7000000, end 6000000 [ns]"}, 100);
}

TEST_F(ImplausibleExport, ACall) {
  run("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (6000000, 5999999, 0x1000001000009, 2000, 2)");
  expect_only({Fault::backward, "call 'cudaLaunchKernel'", "thread 9", "start 6000000, end 5999999 [ns]"}, 100);
  run("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET end = 4000000000000000000 WHERE correlationId = 2000");
  expect_only({Fault::far, "call 'cudaLaunchKernel'", "thread 9", "start 6000000, end 4000000000000000000 [ns]"}, 100);
}

// Nothing is computed from a program's own ranges.
TEST_F(ImplausibleExport, ARangeForbidsNoVerdict) {
  run("INSERT INTO NVTX_EVENTS VALUES (6000000, 5999999, 59, 'r', 0x1000001000009, NULL)");
  const Trace trace = read();
  EXPECT_THAT(trace.implausible, IsEmpty());
  EXPECT_EQ(trace.quality.dropped, 1);
  EXPECT_EQ(quality_objection(trace), std::nullopt);
}

TEST_F(ImplausibleExport, NamesTheFirstFew) {
  run("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 1 WHERE correlationId >= 1060");
  const Trace trace = read();
  EXPECT_EQ(trace.implausible.size(), kMostImplausible);
  EXPECT_EQ(trace.quality.dropped, 40);
}

// What looks odd and is not.
TEST_F(ImplausibleExport, LongCallsAndRangesAreUsual) {
  run("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 3900000, 0x1000001000009, 1, 2), (5500000, 900000000, 0x1000001000009, 2000, 2);"
      "INSERT INTO NVTX_EVENTS VALUES (1, 90000000000, 59, 'training', 0x1000001000009, NULL)");
  const Trace trace = read();
  EXPECT_THAT(trace.implausible, IsEmpty());
  EXPECT_EQ(quality_objection(trace), std::nullopt);
}

TEST_F(ImplausibleExport, AKernelOfItsOwnStreamMayLastThroughout) {
  run("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET streamId = 21, end = 14000000 WHERE correlationId = 1001");
  EXPECT_THAT(read().implausible, IsEmpty());
}

TEST_F(ImplausibleExport, AnEarlyKernelWithItsLaunchIsUsual) {
  run("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = start + 5000000000, end = end + 5000000000 WHERE correlationId > 1000;"
      "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET start = start + 5000000000, end = end + 5000000000 WHERE correlationId > 1000");
  EXPECT_THAT(read().implausible, IsEmpty());
}

TEST_F(ImplausibleExport, AllRowsMayBeImplausible) {
  run("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 1");
  const Trace trace = read();
  EXPECT_TRUE(trace.events.empty());
  EXPECT_EQ(trace.quality.dropped, 100);
}

}  // namespace
}  // namespace mptune::profiler
