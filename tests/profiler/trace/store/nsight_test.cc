#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "profiler/base/index.h"
#include "profiler/trace/analyze/breakdown.h"
#include "profiler/trace/analyze/quality_objection.h"
#include "profiler/trace/store/store.h"
#include "tests/profiler/trace/store/device_numbers.h"
#include "tests/support/files.h"

namespace mptune::profiler {
namespace {

using testing::covered;
using testing::expect_no_overlap;
using testing::extent;
using testing::Numbers;
using testing::numbers_of;
using testing::Span;

// From the file's rows, without the reader.
Numbers numbers_of_rows(const std::string& path, int device) {
  SQLite::Database database(path, SQLite::OPEN_READONLY);
  const auto spans_of = [&](const std::string& table) {
    std::vector<Span> spans;
    SQLite::Statement rows(database, "SELECT start, end FROM CUPTI_ACTIVITY_KIND_" + table + " WHERE deviceId = ?");
    rows.bind(1, device);
    while (rows.executeStep()) spans.emplace_back(rows.getColumn(0).getInt64(), rows.getColumn(1).getInt64());
    return spans;
  };
  const std::vector<Span> kernels = spans_of("KERNEL");
  const std::vector<Span> copies = spans_of("MEMCPY");
  std::vector<Span> busy = spans_of("MEMSET");
  busy.insert(busy.end(), kernels.begin(), kernels.end());
  busy.insert(busy.end(), copies.begin(), copies.end());
  return {covered(kernels), extent(kernels), covered(busy), extent(busy), covered(copies)};
}

TEST(NsightExport, ReproducesThePublishedNumbers) {
  const std::string fixture = testing::shared_data("nsys/h100_2gpu_1s.sqlite");
  if (fixture.empty()) {
    GTEST_SKIP() << "the shared data are absent; set MPTUNE_DATA_DIR";
  }
  const Recording recording = read_recording(fixture);
  EXPECT_FALSE(recording.profile);
  const Trace& trace = recording.trace.value();
  ASSERT_EQ(trace.devices.size(), 2u);
  const Numbers first{22385163, 960485009, 962890247, 969447605, 940490300};
  const Numbers second{22444359, 960307663, 962810705, 969258578, 940351914};
  EXPECT_EQ(numbers_of(trace, 0), first);
  EXPECT_EQ(numbers_of(trace, 1), second);
  EXPECT_EQ(numbers_of_rows(fixture, 0), first);
  EXPECT_EQ(numbers_of_rows(fixture, 1), second);
  std::map<EventKind, int> counts;
  for (const Event& event : trace.events) ++counts[event.kind];
  EXPECT_EQ(counts[EventKind::kernel] + counts[EventKind::collective], 3442);
  EXPECT_EQ(counts[EventKind::copy], 904);
  EXPECT_EQ(counts[EventKind::memset], 22);
  EXPECT_EQ(counts[EventKind::sync], 244);
  EXPECT_EQ(trace.ranges.size(), 16782u);
  expect_no_overlap(trace);
  EXPECT_EQ(trace.started_utc_ns, 1779630014975716426);
}

TEST(NsightExport, ReadsKernelsAsLaunchedAndEveryCall) {
  const std::string fixture = testing::shared_data("nsys/h100_2gpu_1s.sqlite");
  if (fixture.empty()) {
    GTEST_SKIP() << "the shared data are absent; set MPTUNE_DATA_DIR";
  }
  const Trace trace = read_recording(fixture).trace.value();
  EXPECT_EQ(std::ranges::count_if(trace.events, [](const Event& event) { return is_compute(event.kind) && event.detail >= 0; }), 3442);
  EXPECT_LT(trace.kernels.size(), 1000U) << "those that are alike are there once";
  ASSERT_FALSE(trace.kernels.empty());
  EXPECT_EQ(trace.kernels[0], (Kernel{1, 7, {50, 4, 1}, {256, 1, 1}, 32, 0, 0}));
  EXPECT_EQ(trace.launches.size(), 5796u);
  const auto idle_calls = std::count_if(trace.launches.begin(), trace.launches.end(), [](const Launch& l) { return l.event < 0; });
  SQLite::Database database(fixture, SQLite::OPEN_READONLY);
  const auto count = [&](const std::string& sql) { return database.execAndGet(sql).getInt64(); };
  const std::string work =
      "(SELECT correlationId, globalPid, start FROM CUPTI_ACTIVITY_KIND_KERNEL UNION ALL SELECT correlationId, globalPid, start FROM "
      "CUPTI_ACTIVITY_KIND_MEMCPY UNION ALL SELECT correlationId, globalPid, start FROM CUPTI_ACTIVITY_KIND_MEMSET) w";
  const std::string call = "r.correlationId = w.correlationId AND r.globalTid / 0x1000000 = w.globalPid / 0x1000000";
  const std::string without_launch = "SELECT count(*) FROM " + work +
                                     " WHERE NOT EXISTS (SELECT 1 FROM CUPTI_ACTIVITY_KIND_RUNTIME r WHERE " + call +
                                     " AND w.start >= r.start)";
  const std::string earlier =
      " AND w.correlationId < (SELECT min(correlationId) FROM CUPTI_ACTIVITY_KIND_RUNTIME r WHERE r.globalTid / 0x1000000 = w.globalPid / "
      "0x1000000)";
  EXPECT_EQ(trace.quality.unmatched + trace.quality.cut_off, count(without_launch));
  EXPECT_EQ(trace.quality.cut_off, count(without_launch + earlier));
  EXPECT_GE(trace.quality.cut_off, 1810 + 466);
  EXPECT_EQ(quality_objection(trace), std::nullopt) << "the file is a window of a longer recording";
  const std::string started = "EXISTS (SELECT 1 FROM " + work + " WHERE " + call + ")";
  const std::string waited = "EXISTS (SELECT 1 FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION w WHERE " + call + ")";
  EXPECT_EQ(idle_calls, count("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME r WHERE NOT " + started + " AND NOT " + waited));
}

TEST(NsightExport, BreaksDownByTheSameUnions) {
  const std::string fixture = testing::shared_data("nsys/h100_2gpu_1s.sqlite");
  if (fixture.empty()) {
    GTEST_SKIP() << "the shared data are absent; set MPTUNE_DATA_DIR";
  }
  const StepBreakdown step = break_down(read_recording(fixture).trace.value()).steps.at(0);
  for (int d = 0; d < 2; ++d) {
    const DeviceBreakdown& device = step.devices.at(as_index(d));
    EXPECT_EQ((device.compute + device.copy + device.overlap).count(), numbers_of_rows(fixture, d).busy_union);
    EXPECT_EQ((device.copy + device.overlap).count(), numbers_of_rows(fixture, d).copy_union);
  }
}

}  // namespace
}  // namespace mptune::profiler
