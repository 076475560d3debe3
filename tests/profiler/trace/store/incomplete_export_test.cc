#include <gtest/gtest.h>

#include <string>

#include "profiler/base/index.h"
#include "profiler/trace/analyze/breakdown.h"
#include "profiler/trace/analyze/quality_objection.h"
#include "tests/profiler/trace/store/foreign_export.h"

namespace mptune::profiler {
namespace {

// Exports of Nsight Systems that lack rows.
class IncompleteExport : public testing::ForeignExport {};

TEST_F(IncompleteExport, TheWholeOneHasAVerdict) {
  const Trace trace = read();
  EXPECT_EQ(trace.events.size(), 100U);
  EXPECT_EQ(trace.quality, (TraceQuality{.untagged = 100}));
  EXPECT_EQ(quality_objection(trace), std::nullopt);
}

// The driver moves pages of unified memory on its own: no call launches these copies.
TEST_F(IncompleteExport, CopiesOfUnifiedMemoryNeedNoLaunch) {
  run("WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 59) INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY SELECT 5000000 "
      "+ "
      "30000 * i, 5002000 + 30000 * i, 0, 1, 0, NULL, 0x1000001000000, 4096, 11 + i % 2, NULL, NULL FROM n");
  run("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (6900000, 6900010, 0, 1, 0, 0, 0x1000001000000, 64, 13, 0, 7)");
  const Trace trace = read();
  EXPECT_EQ(trace.quality, (TraceQuality{.untagged = 161}));
  EXPECT_EQ(quality_objection(trace), std::nullopt);
  EXPECT_EQ(trace.copies.at(0), (Copy{.bytes = 4096, .source = -1, .destination = 0, .unified = true}));
  EXPECT_EQ(trace.copies.at(1), (Copy{.bytes = 4096, .source = 0, .destination = -1, .unified = true}));
  EXPECT_EQ(trace.copies.at(60), (Copy{.bytes = 64, .source = 0, .destination = -1, .unified = true})) << "device 7 does nothing here";
}

// Thousands of small copies of unified memory do not hide that launches of kernels are missing.
TEST_F(IncompleteExport, CopiesOfUnifiedMemoryHideNoLosses) {
  run("WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 2999) INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY SELECT "
      "5000000 "
      "+ 3000 * i, 5001000 + 3000 * i, 0, 1, 0, NULL, 0x1000001000000, 4096, 11, NULL, NULL FROM n");
  run("DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE correlationId BETWEEN 1040 AND 1049");
  const auto objection = quality_objection(read());
  ASSERT_TRUE(objection);
  EXPECT_EQ(objection->loss, QualityObjection::Loss::unmatched);
  EXPECT_DOUBLE_EQ(objection->share, 0.1);
}

TEST_F(IncompleteExport, OtherCopiesNeedTheirLaunch) {
  for (int kind : {0, 1, 2, 8, 10})
    run("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (6000000, 6000010, 0, 1, 9, NULL, 0x1000001000000, 64, " + std::to_string(kind) +
        ", 0, 0)");
  EXPECT_EQ(read().quality.unmatched, 5);
}

// Calls of a process are numbered in order: a launch before the first recorded call lies before the recording.
TEST_F(IncompleteExport, WorkLaunchedBeforeTheRecordingLacksNothing) {
  run("DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE correlationId < 1060");
  const Trace trace = read();
  EXPECT_EQ(trace.quality, (TraceQuality{.untagged = 100, .cut_off = 60}));
  EXPECT_EQ(quality_objection(trace), std::nullopt);
  // Their launches are not known, so nothing says that the host was late.
  const IdleCauses causes = break_down(trace).steps.at(0).devices.at(0).causes;
  EXPECT_GE(causes.unexplained, Nanoseconds{59 * 20'000});
}

TEST_F(IncompleteExport, LaunchesOfWorkAfterTheRecordingLackNothing) {
  run("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE correlationId >= 1050");
  const Trace trace = read();
  EXPECT_EQ(trace.quality, (TraceQuality{.untagged = 50}));
  EXPECT_EQ(quality_objection(trace), std::nullopt);
}

// Cut at both ends, as `nsys profile --delay --duration` does.
TEST_F(IncompleteExport, AWindowOfALongerRecordingKeepsItsVerdict) {
  run("DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE start < 6500000 OR start > 9500000;"
      "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE start < 6500000 OR start > 9500000;");
  const Trace trace = read();
  EXPECT_EQ(trace.quality.unmatched, 0);
  EXPECT_EQ(trace.quality.cut_off, 10);
  EXPECT_EQ(quality_objection(trace), std::nullopt);
}

TEST_F(IncompleteExport, LaunchesMissingWithinTheRecordingForbidTheVerdict) {
  run("DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE correlationId BETWEEN 1030 AND 1039");
  const Trace trace = read();
  EXPECT_EQ(trace.quality.unmatched, 10);
  EXPECT_EQ(trace.quality.cut_off, 0);
  EXPECT_TRUE(quality_objection(trace));
}

TEST_F(IncompleteExport, LaunchesMissingAfterTheLastCallForbidTheVerdict) {
  run("DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE correlationId >= 1080");
  EXPECT_EQ(read().quality.unmatched, 20);
  EXPECT_TRUE(quality_objection(read()));
}

// What another process launched says nothing of this one's calls.
TEST_F(IncompleteExport, TheFirstCallIsThatOfTheProcess) {
  run("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET globalPid = 0x1000002000000 WHERE correlationId BETWEEN 1030 AND 1039;"
      "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 2, 0x1000002000009, 1035, 2)");
  const Trace trace = read();
  EXPECT_EQ(trace.quality.cut_off, 5);
  EXPECT_EQ(trace.quality.unmatched, 4);
}

TEST_F(IncompleteExport, WorkWithoutACorrelationIsUnmatched) {
  run("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET correlationId = NULL WHERE correlationId = 1000;"
      "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET correlationId = -3 WHERE correlationId = 1001");
  EXPECT_EQ(read().quality.unmatched, 2);
}

}  // namespace
}  // namespace mptune::profiler
