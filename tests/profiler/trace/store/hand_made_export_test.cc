#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/trace/analyze/breakdown.h"
#include "tests/profiler/trace/store/device_numbers.h"
#include "tests/profiler/trace/store/scratch.h"

namespace mptune::profiler {
namespace {

using testing::expect_no_overlap;
using testing::name_of;
using testing::numbers_of;

class HandMadeExport : public testing::Scratch {
 protected:
  HandMadeExport() { SQLite::Database(path(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE); }
  Trace read(const std::string& sql) const {
    std::filesystem::remove(path());
    SQLite::Database(path(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE).exec(sql);
    return read_recording(path()).trace.value();
  }
};

// Two processes reuse a correlation; the columns of schema 2.9 are all there are.
TEST_F(HandMadeExport, LinksLaunchesWithinTheirProcess) {
  const Trace trace = read(
      "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT); INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'ncclDevKernel'), (3, "
      "'train');"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, "
      "correlationId INTEGER, "
      "globalPid INTEGER, shortName INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (100, 110, 3, 1, 7, 5, 0x1000001000000, 1), (50, 60, 5, 1, 7, 5, 0x1000002000000, 2), "
      "(70, 80, 5, 1, 8, "
      "NULL, NULL, 9);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (10, 12, 0x1000002000009, 5), (20, 22, 0x1000001000008, 5), (1, 2, 0x1000001000008, "
      "99);"
      "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER, textId INTEGER);"
      "INSERT INTO NVTX_EVENTS VALUES (5, 200, 59, 'step', 0x1000001000008, NULL), (6, 100, 60, NULL, 0x1000002000009, 3), (7, NULL, 34, "
      "'mark', 1, NULL);");
  ASSERT_EQ(trace.devices.size(), 2u);
  EXPECT_EQ(trace.devices[1].name, "cuda:5");
  ASSERT_EQ(trace.events.size(), 3u);
  EXPECT_EQ(trace.events[0].kind, EventKind::collective);
  EXPECT_EQ(trace.events[0].device, 1);
  EXPECT_NE(trace.events[0].lane, trace.events[1].lane);
  EXPECT_EQ(trace.names[as_index(trace.events[1].name)], "string 9");
  EXPECT_EQ(trace.events[2].kind, EventKind::kernel);
  ASSERT_EQ(trace.launches.size(), 3u);
  EXPECT_EQ(trace.launches[0].event, -1);
  EXPECT_EQ(trace.launches[1].event, 0);
  EXPECT_EQ(trace.launches[2].event, 2);
  EXPECT_EQ(trace.quality.unmatched, 1);
  ASSERT_EQ(trace.ranges.size(), 2u);
  EXPECT_EQ(trace.names[as_index(trace.ranges[0].name)], "step");
  EXPECT_EQ(trace.ranges[0].device, 0);
  EXPECT_EQ(trace.names[as_index(trace.ranges[1].name)], "train");
  EXPECT_EQ(trace.ranges[1].device, 1);
}

TEST_F(HandMadeExport, PeerCopiesKeepTheirEndsAndBackwardRowsAreCounted) {
  const Trace trace = read(
      "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, "
      "correlationId INTEGER, "
      "globalPid INTEGER, bytes INTEGER, copyKind INTEGER, srcDeviceId INTEGER, dstDeviceId INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1, 9, 0, 1, 7, 1, 0, 64, 10, 0, 1), (10, 20, 1, 2, 7, 2, 0, 8, 1, NULL, NULL), (30, "
      "25, 1, 2, 7, 3, 0, 8, "
      "2, NULL, NULL);");
  ASSERT_EQ(trace.events.size(), 2u);
  EXPECT_EQ(trace.copies[0], (Copy{64, 0, 1}));
  EXPECT_EQ(trace.copies[1], (Copy{8, -1, 1}));
  EXPECT_EQ(trace.quality.dropped, 1);
  EXPECT_EQ(trace.quality.untagged, 2);
}

// Two GPUs of one process: stream 7 of context 1 produces, stream 13 of context 2 waits for it. Beside columns that all versions have,
// those of `layout`.
struct ExportForm {
  std::string meta{};
  std::string kernel_columns{};  // behind the common ones
  std::string kernel_values{};
  std::string sync_columns{};
  std::string sync_values{};
};

std::string export_of(const ExportForm& layout) {
  const std::string kernel =
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, correlationId, globalPid, demangledName, "
      "shortName, registersPerThread, gridX, gridY, gridZ, blockX, blockY, blockZ, staticSharedMemory, dynamicSharedMemory, gridId" +
      layout.kernel_columns + ") VALUES ";
  const auto values = [&](const std::string& common, int name) {
    return "(" + common + ", 0x1000001000000, " + std::to_string(name) + ", " + std::to_string(name) + ", 40, 2, 3, 4, 5, 6, 7, 8, 9, 10" +
           layout.kernel_values + ")";
  };
  return layout.meta +
         "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);"
         "INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'add'), (3, 'cudaLaunchKernel_v7000'), (4, 'cudaEventRecord_v3020');"
         "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId "
         "INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL, shortName "
         "INTEGER NOT NULL, registersPerThread INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, "
         "blockZ INTEGER, staticSharedMemory INTEGER, dynamicSharedMemory INTEGER, gridId INTEGER" +
         layout.kernel_columns + ");" + kernel + values("100, 200, 0, 1, 7, 10", 1) + ", " + values("200, 300, 0, 1, 7, 30", 1) + ", " +
         values("150, 170, 1, 2, 13, 5", 2) + ", " + values("205, 260, 1, 2, 13, 22", 2) + ", " + values("260, 270, 1, 2, 13, 24", 2) +
         ";CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid "
         "INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL);"
         "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (50, 60, 0, 0x1000001000009, 10, 3, 0), (61, 62, 0, 0x1000001000009, 11, 4, 0);"
         "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
         "contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, syncType INTEGER NOT NULL, "
         "eventId INTEGER NOT NULL" +
         layout.sync_columns + ");INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (63, 64, 1, 2, 13, 20, 0x1000001000000, 2, 7" +
         layout.sync_values + ");";
}

void expect_two_gpus(const Trace& trace) {
  ASSERT_EQ(trace.events.size(), 6u);
  EXPECT_EQ(trace.kernels.size(), 2u);
  EXPECT_EQ(trace.kernels[0], (Kernel{1, 7, {2, 3, 4}, {5, 6, 7}, 40, 8, 9}));
  EXPECT_EQ(name_of(trace, trace.events[1]), "gemm");
  ASSERT_EQ(trace.launches.size(), 2u);
  EXPECT_EQ(trace.launches[0].event, 1);
  EXPECT_EQ(trace.launches[1].event, -1);
  EXPECT_EQ(trace.names[as_index(trace.launches[1].name)], "cudaEventRecord_v3020");
}

TEST_F(HandMadeExport, OfSchema2Dot9) {
  const Trace trace =
      read(export_of({.meta = "CREATE TABLE EXPORT_META_DATA (name TEXT, value TEXT); INSERT INTO EXPORT_META_DATA VALUES "
                              "('EXPORT_SCHEMA_VERSION', '2.9.1');"}) +
           "CREATE TABLE PROFILER_OVERHEAD (start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER, returnValue INTEGER);"
           "INSERT INTO StringIds VALUES (5, 'CUDA profiling data flush overhead');"
           "INSERT INTO PROFILER_OVERHEAD VALUES (500, 600, 0x1000001000044, 5, 0), (500, 600, 0x1000009000044, 5, 0);");
  ASSERT_EQ(trace.events.size(), 8u);
  for (std::size_t i : {6u, 7u}) {  // on both devices of the process; the other process has none
    EXPECT_EQ(trace.events[i].kind, EventKind::profiler);
    EXPECT_EQ(name_of(trace, trace.events[i]), "CUDA profiling data flush overhead");
  }
  EXPECT_NE(trace.events[6].device, trace.events[7].device);
  EXPECT_TRUE(trace.edges.empty());
}

TEST_F(HandMadeExport, OfSchema3Dot13) {
  const Trace trace = read(export_of({.meta = "CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT); INSERT INTO META_DATA_EXPORT VALUES "
                                              "('EXPORT_SCHEMA_VERSION', '3.13.2');",
                                      .kernel_columns = ", greenContextId",
                                      .kernel_values = ", NULL"}));
  expect_two_gpus(trace);
  EXPECT_TRUE(trace.edges.empty());
}

TEST_F(HandMadeExport, OfSchema3Dot30) {
  const Trace trace = read(
      export_of({.meta = "CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT); INSERT INTO META_DATA_EXPORT VALUES "
                         "('EXPORT_SCHEMA_VERSION', '3.30.1');",
                 .kernel_columns = ", greenContextId, tensorSizeMinusOneElements",
                 .kernel_values = ", 0, '[]'",
                 .sync_columns = ", eventSyncId",
                 .sync_values = ", 77"}) +
      "CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT (timestamp INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, "
      "correlationId INTEGER, globalPid INTEGER, eventId INTEGER, eventSyncId INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES (0, 0, 1, 7, 11, 0x1000001000000, 7, 77), (0, 0, 1, 7, 31, 0x1000001000000, 7, "
      "78), (0, 0, 1, 7, 12, 0x1000002000000, 7, 77);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_OVERHEAD (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, correlationId "
      "INTEGER, nameId INTEGER, overheadType INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_OVERHEAD VALUES (400, 410, 103, 0x1000001000044, NULL, NULL, 3), (400, 410, 103, 0x1000001000044, "
      "NULL, NULL, 8);"
      "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER, textId INTEGER, eventId "
      "INTEGER NOT NULL PRIMARY KEY); INSERT INTO NVTX_EVENTS VALUES (10, 20, 59, 'r', 0x1000001000009, NULL, 5);");
  ASSERT_EQ(trace.events.size(), 8u);
  // From the last kernel before the record (10 < 11) to the next after the wait (22 > 20).
  ASSERT_EQ(trace.edges.size(), 1u);
  EXPECT_EQ(trace.edges[0].kind, EdgeKind::event_wait);
  EXPECT_EQ(trace.events[as_index(trace.edges[0].producer)].start, Nanoseconds{100});
  EXPECT_EQ(trace.events[as_index(trace.edges[0].consumer)].start, Nanoseconds{205});
  EXPECT_EQ(trace.events[6].kind, EventKind::profiler);
  EXPECT_EQ(name_of(trace, trace.events[6]), "Buffer flush (Profiler)");
  EXPECT_EQ(trace.ranges.size(), 1u);
  EXPECT_EQ(trace.ranges[0].device, 0);
}

TEST_F(HandMadeExport, WithoutWorkIsItsCallsAndRanges) {
  const Trace trace = read(
      "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (5, 6, 0x1000001000009, 1, 1), (0, 0, 0x1000001000009, 2, 1);");
  EXPECT_TRUE(trace.devices.empty());
  ASSERT_EQ(trace.launches.size(), 1u);
  EXPECT_EQ(trace.launches[0].event, -1);
  EXPECT_EQ(trace.quality.zero_stamped, 1);
}

// Reading the Nsight tables of an mptune file gives what was written.
TEST_F(HandMadeExport, OfOursWithoutOurTablesBreaksDownAlike) {
  std::filesystem::remove(path());
  Trace written = write_hand_made().trace.value();
  SQLite::Database(path(), SQLite::OPEN_READWRITE).exec("DROP TABLE MPTUNE_META");
  const Trace read = read_recording(path()).trace.value();
  written.steps.clear();
  std::vector<DeviceBreakdown> others = break_down(read).steps.at(0).devices;
  std::vector<DeviceBreakdown> ours = break_down(written).steps.at(0).devices;
  // The causes need tags and edges that the layout has no word for.
  for (std::vector<DeviceBreakdown>* devices : {&others, &ours})
    for (DeviceBreakdown& device : *devices) device.causes = {};
  EXPECT_EQ(others, ours);
  EXPECT_EQ(read.launches.size(), written.launches.size());
}

// Kernels of one stream may overlap, waits and the recorder's own work overlap everything.
TEST_F(HandMadeExport, LeavesOfALaneNeverOverlap) {
  std::string sql =
      "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId "
      "INTEGER, syncType INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (1, 900, 0, 1, 7, 3);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (10, 20, 0, 1, 7), (15, 30, 0, 1, 7), (20, 25, 0, 1, 7), (30, 30, 0, 1, 8)";
  const Trace trace = read(sql + ";");
  ASSERT_EQ(trace.events.size(), 5u);
  expect_no_overlap(trace);
  EXPECT_EQ(trace.events[1].lane, trace.events[3].lane);
  EXPECT_NE(trace.events[1].lane, trace.events[2].lane);
  // More streams than lanes, one after another: lanes are used again. At once: no lane is left.
  std::string later = sql;
  std::string at_once = sql;
  for (int i = 0; i < 300; ++i) {
    later += ", (" + std::to_string(1000 + i) + ", " + std::to_string(1001 + i) + ", 0, 1, " + std::to_string(100 + i) + ")";
    at_once += ", (1000, 2000, 0, 1, " + std::to_string(100 + i) + ")";
  }
  expect_no_overlap(read(later + ";"));
  EXPECT_THROW((void)read(at_once + ";"), Error);
}

TEST_F(HandMadeExport, TheBusiestStreamIsTheComputeLane) {
  const Trace trace = read(
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, "
      "correlationId INTEGER, globalPid INTEGER, shortName INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (40, 45, 0, 1, 13, 1, 0x1000001000000, 1), (50, 90, 0, 1, 7, 2, 0x1000001000000, 1), "
      "(80, 100, 0, 1, 7, 3, 0x1000001000000, 1);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, "
      "correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (30, 300, 0, 1, 14, 4, 0x1000001000000, 8, 1), "
      "(30, 35, 1, 2, 15, 5, 0x1000001000000, 8, 1);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId "
      "INTEGER, syncType INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (10, 900, 0, 1, 7, 3), (10, 20, 1, 2, 15, 3);"
      "CREATE TABLE PROFILER_OVERHEAD (start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER);"
      "INSERT INTO PROFILER_OVERHEAD VALUES (1, 5, 0x1000001000044, 1);");
  expect_no_overlap(trace);
  for (const Event& event : trace.events) {
    const bool busiest = event.kind == EventKind::kernel && event.start == Nanoseconds{50};
    EXPECT_EQ(event.lane == kComputeLane, busiest) << to_string(event.kind) << " at " << event.start.count() << " on " << event.device;
  }
}

// Kernels, calls, copies' ends and the recorder's own work survive the layout alone, without our own tables.
TEST_F(HandMadeExport, OfOurGpuRecordingKeepsItsDetails) {
  std::filesystem::remove(path());
  const Trace written = testing::gpu_trace();
  write({.trace = written});
  SQLite::Database(path(), SQLite::OPEN_READWRITE).exec("DROP TABLE MPTUNE_META");
  const Trace read = read_recording(path()).trace.value();
  EXPECT_EQ(read.kernels, (std::vector<Kernel>{written.kernels[1], written.kernels[2], written.kernels[0]}));
  const auto calls = [](const Trace& trace) {
    std::multiset<std::pair<std::string, bool>> result;
    for (const Launch& launch : trace.launches)
      result.emplace(launch.name < 0 ? "launch" : trace.names[as_index(launch.name)], launch.event < 0);
    return result;
  };
  EXPECT_EQ(calls(read), calls(written));
  const auto copies = [](const Trace& trace) {
    std::multiset<std::pair<int, int>> result;
    for (const Copy& copy : trace.copies) result.emplace(copy.source, copy.destination);
    return result;
  };
  EXPECT_EQ(copies(read), copies(written));
  EXPECT_EQ(read.quality.unmatched, 0);
  for (int device : {0, 1}) EXPECT_EQ(numbers_of(read, device), numbers_of(written, device));
}

}  // namespace
}  // namespace mptune::profiler
