#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <map>

#include "mptune/profiler/analyze/breakdown.h"
#include "mptune/profiler/trace/intervals.h"
#include "mptune/tests/profiler/store/scratch.h"

namespace mptune {
namespace {

struct Numbers {
  std::int64_t compute_union = 0;
  std::int64_t compute_window = 0;
  std::int64_t busy_union = 0;
  std::int64_t busy_span = 0;
  std::int64_t copy_union = 0;
  bool operator==(const Numbers&) const = default;
};

Numbers numbers_of(const Trace& trace, int device) {
  std::vector<TimeInterval> kernels;
  std::vector<TimeInterval> busy;
  std::vector<TimeInterval> copies;
  for (const Event& event : trace.events) {
    if (event.device != device || event.what == What::sync) continue;
    const TimeInterval interval{event.start, event.end()};
    busy.push_back(interval);
    if (event.what == What::copy) copies.push_back(interval);
    if (event.what == What::kernel || event.what == What::collective) kernels.push_back(interval);
  }
  kernels = merge(kernels);
  busy = merge(busy);
  const auto span = [](const std::vector<TimeInterval>& merged) { return (merged.back().end - merged.front().start).count(); };
  return {total(kernels).count(), span(kernels), total(busy).count(), span(busy), total(merge(copies)).count()};
}

TEST(NsightExport, ReproducesThePublishedNumbers) {
  const std::string fixture = testing::shared_data("nsys/h100_2gpu_1s.sqlite");
  if (fixture.empty()) GTEST_SKIP() << "the shared data are absent; set MPTUNE_DATA_DIR";
  const Recording recording = read_recording(fixture);
  EXPECT_FALSE(recording.profile);
  const Trace& trace = recording.trace.value();
  ASSERT_EQ(trace.devices.size(), 2u);
  EXPECT_EQ(numbers_of(trace, 0), (Numbers{22385163, 960485009, 962890247, 969447605, 940490300}));
  EXPECT_EQ(numbers_of(trace, 1), (Numbers{22444359, 960307663, 962810705, 969258578, 940351914}));
  std::map<What, int> counts;
  for (const Event& event : trace.events) ++counts[event.what];
  EXPECT_EQ(counts[What::kernel] + counts[What::collective], 3442);
  EXPECT_EQ(counts[What::copy], 904);
  EXPECT_EQ(counts[What::memset], 22);
  EXPECT_EQ(counts[What::sync], 244);
  EXPECT_EQ(trace.ranges.size(), 16782u);
  EXPECT_EQ(trace.started_utc_ns, 1779630014975716426);
}

TEST(NsightExport, BreaksDownByTheSameUnions) {
  const std::string fixture = testing::shared_data("nsys/h100_2gpu_1s.sqlite");
  if (fixture.empty()) GTEST_SKIP() << "the shared data are absent; set MPTUNE_DATA_DIR";
  Trace trace = read_recording(fixture).trace.value();
  for (int d = 0; d < 2; ++d) {
    const DeviceBreakdown device = break_down(trace).steps.at(0).devices.at(static_cast<std::size_t>(d));
    EXPECT_EQ((device.compute + device.copy + device.overlap).count(), numbers_of(trace, d).busy_union);
    EXPECT_EQ((device.copy + device.overlap).count(), numbers_of(trace, d).copy_union);
  }
}

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
  EXPECT_EQ(trace.events[0].what, What::collective);
  EXPECT_EQ(trace.events[0].device, 1);
  EXPECT_NE(trace.events[0].lane, trace.events[1].lane);
  EXPECT_EQ(trace.names[static_cast<std::size_t>(trace.events[1].name)], "string 9");
  EXPECT_EQ(trace.events[2].what, What::kernel);
  ASSERT_EQ(trace.launches.size(), 2u);
  EXPECT_EQ(trace.launches[0].event, 0);
  EXPECT_EQ(trace.launches[1].event, 2);
  ASSERT_EQ(trace.ranges.size(), 2u);
  EXPECT_EQ(trace.names[static_cast<std::size_t>(trace.ranges[0].name)], "step");
  EXPECT_EQ(trace.ranges[0].device, 0);
  EXPECT_EQ(trace.names[static_cast<std::size_t>(trace.ranges[1].name)], "train");
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

// What others would read of our own file is what we wrote.
TEST_F(HandMadeExport, OfOursWithoutOurTablesBreaksDownAlike) {
  std::filesystem::remove(path());
  Trace written = write_hand_made().trace.value();
  SQLite::Database(path(), SQLite::OPEN_READWRITE).exec("DROP TABLE MPTUNE_META");
  const Trace read = read_recording(path()).trace.value();
  written.steps.clear();
  EXPECT_EQ(break_down(read).steps.at(0).devices, break_down(written).steps.at(0).devices);
  EXPECT_EQ(read.launches.size(), written.launches.size());
}

}  // namespace
}  // namespace mptune
