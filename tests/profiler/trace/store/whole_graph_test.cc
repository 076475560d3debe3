#include <gmock/gmock.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "profiler/base/index.h"
#include "profiler/trace/analyze/breakdown.h"
#include "profiler/trace/analyze/quality_objection.h"
#include "tests/profiler/trace/store/foreign_export.h"

namespace mptune::profiler {
namespace {

using ::testing::ElementsAre;

constexpr const char* kGraphTable =
    "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, graphId "
    "INTEGER "
    "NOT NULL, graphExecId INTEGER NOT NULL, contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId "
    "INTEGER, globalPid INTEGER);";

// Exports with rows of other tables than kernels and copies, and in other orders.
class OddRows : public testing::ForeignExport {
 protected:
  OddRows() { run(kGraphTable); }
  void add_graph(std::int64_t start, std::int64_t end, int call, int device = 0, int stream = 7) const {
    run("INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (" + std::to_string(start) + ", " + std::to_string(end) + ", " +
        std::to_string(device) + ", 1, 2, 1, NULL, " + std::to_string(stream) + ", " + std::to_string(call) + ", 0x1000001000000)");
  }
  [[nodiscard]] static Nanoseconds busy(const Trace& trace, int device = 0) {
    const DeviceBreakdown mean = mean_over_steps(break_down(trace), device);
    return mean.compute + mean.copy + mean.overlap;
  }
};

// nsys records a graph as one row unless it is asked for its nodes.
TEST_F(OddRows, AGraphRecordedAsAWholeIsWork) {
  run("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE correlationId = 1050");
  add_graph(10'000'000, 10'090'000, 1050);
  const Trace trace = read();
  ASSERT_EQ(trace.events.size(), 100U);
  EXPECT_EQ(busy(trace), Nanoseconds{99 * 80'000 + 90'000});
  const Event& graph = trace.events[50];
  EXPECT_TRUE(is_whole_graph(trace, graph));
  EXPECT_FALSE(is_whole_graph(trace, trace.events[49]));
  EXPECT_EQ(graph.lane, trace.events[49].lane);
  EXPECT_EQ(trace.launches.at(50).event, 50);
  EXPECT_EQ(trace.quality, (TraceQuality{.untagged = 100}));
}

TEST_F(OddRows, AGraphMayBeAllThereIs) {
  run("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL; DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY");
  add_graph(5'000'000, 6'000'000, 1000, 3);
  const Trace trace = read();
  ASSERT_EQ(trace.events.size(), 1U);
  EXPECT_EQ(trace.devices.at(0).name, "cuda:3");
  EXPECT_EQ(busy(trace), Nanoseconds{1'000'000});
}

// What is between recorded nodes is idle, whatever the row of the graph says.
TEST_F(OddRows, RecordedNodesTellMoreThanTheirGraph) {
  run("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET correlationId = 1000 WHERE correlationId < 1010");
  add_graph(5'000'000, 6'000'000, 1000);
  const Trace trace = read();
  EXPECT_EQ(trace.events.size(), 100U);
  EXPECT_EQ(busy(trace), Nanoseconds{100 * 80'000});
  EXPECT_EQ(quality_objection(trace), std::nullopt);
}

TEST_F(OddRows, TheRecordersWorkAndWaitsDoNotStretchTheWindow) {
  run("CREATE TABLE PROFILER_OVERHEAD (start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER, overheadType INTEGER);"
      "INSERT INTO PROFILER_OVERHEAD VALUES (1000, 4000000, 0x1000001000009, 1, 0), (90000000, 95000000, 0x1000001000009, 1, 0);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId "
      "INTEGER, "
      "correlationId INTEGER, globalPid INTEGER, syncType INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (500, 900, 0, 1, 7, 9, 0x1000001000000, 3);"
      "CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, timestampType INTEGER, source INTEGER, severity INTEGER, text TEXT, globalPid "
      "INTEGER); INSERT INTO DIAGNOSTIC_EVENT VALUES (-5000000000, 1, 1, 2, 'odd', NULL), (99000000000, 1, 1, 2, 'odd', NULL);");
  const Trace trace = read();
  const DeviceBreakdown device = break_down(trace).steps.at(0).devices.at(0);
  EXPECT_EQ(device.window, Nanoseconds{99 * 100'000 + 80'000});
  EXPECT_EQ(device.compute, Nanoseconds{100 * 80'000});
}

// Within the window the recorder's work explains why the device was idle.
TEST_F(OddRows, TheRecordersWorkExplainsIdleTime) {
  run("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = start + 5000000, end = end + 5000000 WHERE correlationId >= 1050;"
      "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET start = start + 5000000, end = end + 5000000 WHERE correlationId >= 1050;"
      "CREATE TABLE PROFILER_OVERHEAD (start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER, overheadType INTEGER);"
      "INSERT INTO PROFILER_OVERHEAD VALUES (10000000, 13000000, 0x1000001000009, 1, 3)");
  EXPECT_EQ(break_down(read()).steps.at(0).devices.at(0).causes.profiler, Nanoseconds{3'000'000});
}

TEST_F(OddRows, AKernelThatOverrunsTheNextIsCut) {
  run("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = end + 2000000 WHERE correlationId = 1030");
  const Trace trace = read();
  EXPECT_EQ(busy(trace), Nanoseconds{100 * 80'000 + 20'000}) << "at most until the next";
  EXPECT_THAT(trace.implausible, ElementsAre(ImplausibleTime{ImplausibleTime::Fault::overrun, "kernel 'gemm'", "cuda:0, stream 7",
                                                             "start 8000000, end 10080000 [ns]; the next starts at 8100000"}));
  EXPECT_EQ(trace.quality.dropped, 0);
  EXPECT_TRUE(quality_objection(trace));
}

TEST_F(OddRows, AKernelThatMayBeginEarlyIsOverrunByNone) {
  run("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = end + 50000 WHERE correlationId = 1030");
  EXPECT_EQ(read().implausible.size(), 1U);
  run("INSERT INTO StringIds VALUES (9, 'cudaLaunchKernelExC_v11060'); UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET nameId = 9 WHERE "
      "correlationId = 1031");
  EXPECT_EQ(read().implausible.size(), 0U);
  EXPECT_EQ(quality_objection(read()), std::nullopt);
}

// The clocks of host and device agree to some microseconds only.
TEST_F(OddRows, AKernelStampedShortlyBeforeItsLaunchHasIt) {
  run("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET start = start + 1004000, end = end + 1004000");
  EXPECT_EQ(read().quality.unmatched, 0);
  EXPECT_EQ(read().launches.at(5).event, 5);
  run("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET start = start + 1000000, end = end + 1000000");
  EXPECT_EQ(read().quality.unmatched, 100);
}

// Slow reference: the nanoseconds that any of the rows covers, in steps of 1000.
std::int64_t covered_microseconds(const std::vector<std::pair<std::int64_t, std::int64_t>>& rows) {
  std::set<std::int64_t> microseconds;
  for (const auto& [start, end] : rows)
    for (std::int64_t t = start; t < end; t += 1000) microseconds.insert(t / 1000);
  return 1000 * static_cast<std::int64_t>(microseconds.size());
}

// nsys 2025.6 and later export rows in any order.
TEST_F(OddRows, RowsInAnyOrderReadTheSame) {
  std::mt19937 random(46);
  const auto draw = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  for (int round = 0; round < 12; ++round) {
    run("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL; DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME; DELETE FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE;"
        "DELETE FROM NVTX_EVENTS; DROP TABLE IF EXISTS PROFILER_OVERHEAD;"
        "CREATE TABLE PROFILER_OVERHEAD (start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER, overheadType INTEGER);");
    std::vector<std::string> rows;
    std::map<int, std::vector<std::pair<std::int64_t, std::int64_t>>> work;
    for (int call = 1; call <= 40; ++call) {
      const int device = draw(1);
      const std::int64_t start = 1'000 * (5'000 + 50 * call + draw(3) * 50);
      const std::int64_t end = start + 1'000 * (10 + draw(80));
      const std::string at = std::to_string(start) + ", " + std::to_string(end) + ", " + std::to_string(device);
      const std::string of = std::to_string(7 + call) + ", " + std::to_string(call) + ", 0x1000001000000";  // a stream of its own
      rows.push_back(draw(2) == 0
                         ? "CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (" + at + ", 1, 2, 1, NULL, " + of + ")"
                         : "CUPTI_ACTIVITY_KIND_KERNEL VALUES (" + at + ", 1, " + of + ", " + std::to_string(1 + 2 * draw(1)) + ")");
      rows.push_back("CUPTI_ACTIVITY_KIND_RUNTIME VALUES (" + std::to_string(start - 9'000) + ", " + std::to_string(start - 8'000) +
                     ", 0x1000001000009, " + std::to_string(call) + ", 2)");
      rows.push_back("NVTX_EVENTS VALUES (" + std::to_string(start) + ", " + std::to_string(end) + ", 59, 'r', 0x1000001000009, NULL)");
      rows.push_back("PROFILER_OVERHEAD VALUES (" + std::to_string(draw(30'000'000)) + ", 30000000, 0x1000001000009, 1, 3)");
      work[device].emplace_back(start, end);
    }
    for (const std::string& row : rows) run("INSERT INTO " + row);
    const Trace first = read();
    for (const auto& [device, times] : work) EXPECT_EQ(busy(first, device).count(), covered_microseconds(times)) << round;
    for (const char* table : {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS",
                              "PROFILER_OVERHEAD", "StringIds"})
      run(std::string("CREATE TEMP TABLE mixed AS SELECT * FROM ") + table + " ORDER BY random(); DELETE FROM " + table + "; INSERT INTO " +
          table + " SELECT * FROM mixed; DROP TABLE mixed");
    EXPECT_EQ(read(), first) << round;
  }
}

}  // namespace
}  // namespace mptune::profiler
