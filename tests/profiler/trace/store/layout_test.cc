#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <fstream>
#include <vector>

#include "profiler/trace/store/schema.h"
#include "tests/profiler/trace/store/scratch.h"

namespace mptune::profiler {
namespace {

using testing::rows_of;
using Texts = std::vector<std::string>;

class Layout : public testing::Scratch {
 protected:
  Layout() { write_hand_made(); }
  Texts rows(const std::string& sql) const { return rows_of(path(), sql); }
};

TEST_F(Layout, EqualsTheRealExports) {
  const std::string real = testing::shared_data("nsys/h100_2gpu_1s.sqlite");
  const std::string schema = testing::shared_data("nsys/nsys-3.24-schema.sql");
  if (real.empty() || schema.empty()) {
    GTEST_SKIP() << "the shared data are absent; set MPTUNE_DATA_DIR";
  }
  EXPECT_EQ(testing::layout_differences(path(), real, schema), Texts{});
  SQLite::Database(path(), SQLite::OPEN_READWRITE)
      .exec(
          "ALTER TABLE PROFILER_OVERHEAD ADD COLUMN more INTEGER; DROP TABLE PROCESSES; UPDATE ENUM_CUPTI_SYNC_TYPE SET label = 'x' WHERE "
          "id = 1");
  EXPECT_EQ(testing::layout_differences(path(), real, schema),
            (Texts{"PROCESSES is absent", "PROFILER_OVERHEAD", "rows of ENUM_CUPTI_SYNC_TYPE"}));
}

TEST_F(Layout, HoldsNothingThatReadersCannotRead) {
  EXPECT_EQ(rows("SELECT name FROM sqlite_master WHERE name LIKE 'MPTUNE%KERNEL%' OR type IN ('view', 'trigger')"), Texts{});
  EXPECT_EQ(rows("SELECT name FROM sqlite_master WHERE type = 'index' AND name NOT LIKE 'sqlite_autoindex%'"), Texts{});
}

TEST_F(Layout, FileHasTheExportsSettings) {
  EXPECT_EQ(rows("PRAGMA page_size"), Texts{"4096"});
  EXPECT_EQ(rows("PRAGMA journal_mode"), Texts{"delete"});
  EXPECT_EQ(rows("PRAGMA user_version"), Texts{"0"});
  EXPECT_EQ(rows("PRAGMA application_id"), Texts{"0"});
  EXPECT_EQ(rows("PRAGMA encoding"), Texts{"UTF-8"});
  EXPECT_EQ(rows("PRAGMA integrity_check"), Texts{"ok"});
}

// Each of these changes breaks one rule, and the rules find it.
TEST_F(Layout, RulesFindWhatReadersWouldMisread) {
  for (const char* fault : {"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 1",
                            "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET start = 0",
                            "UPDATE ANALYSIS_DETAILS SET duration = 5",
                            "DELETE FROM ANALYSIS_DETAILS",
                            "DELETE FROM StringIds WHERE id = 1",
                            "DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE rowid = 1",
                            "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET correlationId = 10",
                            "DELETE FROM TARGET_INFO_GPU WHERE id = 1",
                            "UPDATE TARGET_INFO_CUDA_DEVICE SET cudaId = 7",
                            "UPDATE TARGET_INFO_GPU SET cuDevice = 1 - id",
                            "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET copyKind = 14",
                            "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET dstDeviceId = NULL",
                            "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET copyKind = 8",
                            "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET bytes = -1",
                            "DELETE FROM TARGET_INFO_CUDA_STREAM",
                            "DELETE FROM TARGET_INFO_CUDA_CONTEXT_INFO",
                            "UPDATE NVTX_EVENTS SET end = NULL",
                            "UPDATE NVTX_EVENTS SET textId = NULL",
                            "UPDATE NVTX_EVENTS SET domainId = 3",
                            "UPDATE NVTX_EVENTS SET globalTid = 5",
                            "UPDATE CUPTI_ACTIVITY_KIND_MEMSET SET globalPid = globalPid + 1",
                            "UPDATE CUPTI_ACTIVITY_KIND_MEMSET SET globalPid = globalPid * 2",
                            "UPDATE PROFILER_OVERHEAD SET overheadType = 12",
                            "UPDATE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION SET syncType = 9",
                            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET gridX = 1.5"}) {
    write({.trace = testing::gpu_trace()});
    SQLite::Database(path(), SQLite::OPEN_READWRITE).exec(fault);
    EXPECT_FALSE(testing::broken_rules(path()).empty()) << fault;
  }
}

TEST_F(Layout, LeavesNeverOverlapOnAStream) {
  EXPECT_TRUE(
      rows("WITH leaf AS (SELECT start, end, deviceId d, streamId s FROM CUPTI_ACTIVITY_KIND_KERNEL UNION ALL SELECT start, end, deviceId, "
           "streamId FROM CUPTI_ACTIVITY_KIND_MEMCPY UNION ALL SELECT start, end, deviceId, streamId FROM CUPTI_ACTIVITY_KIND_MEMSET UNION "
           "ALL "
           "SELECT start, end, deviceId, streamId FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION) "
           "SELECT 1 FROM (SELECT start, lag(end) OVER (PARTITION BY d, s ORDER BY start) before FROM leaf) WHERE start < before")
          .empty());
}

TEST_F(Layout, EveryRankIsAProcess) {
  Trace trace = testing::gpu_trace();
  trace.devices[0].name = "0@cuda:0";
  trace.devices[1].name = "2@cuda:0";
  trace.threads = {thread_of_rank(0, "worker"), thread_of_rank(2, "worker"), thread_of_rank(1, "waits")};
  write({.trace = trace});
  EXPECT_EQ(testing::broken_rules(path()), Texts{});
  EXPECT_EQ(rows("SELECT pid, name, globalPid >> 24 & 0xFFFFFF FROM PROCESSES ORDER BY 1"),
            (Texts{"1|mptune rank 0|1", "2|mptune rank 1|2", "3|mptune rank 2|3"}));
  for (const char* table : {"KERNEL", "MEMCPY", "MEMSET", "SYNCHRONIZATION"})
    EXPECT_EQ(rows(std::string("SELECT 1 FROM CUPTI_ACTIVITY_KIND_") + table + " WHERE globalPid >> 24 & 0xFFFFFF <> 1 + 2 * deviceId"),
              Texts{})
        << table;
  EXPECT_EQ(rows("SELECT cudaId, pid FROM TARGET_INFO_CUDA_DEVICE ORDER BY 1"), (Texts{"0|1", "1|3"}));
  EXPECT_EQ(rows("SELECT DISTINCT deviceId, processId FROM TARGET_INFO_CUDA_CONTEXT_INFO ORDER BY 1"), (Texts{"0|1", "1|3"}));
  EXPECT_EQ(rows("SELECT value, globalTid >> 24 & 0xFFFFFF FROM ThreadNames JOIN StringIds ON id = nameId ORDER BY globalTid & 0xFFFFFF"),
            (Texts{"rank 0, worker|1", "rank 2, worker|3", "rank 1, waits|2"}));
  EXPECT_EQ(read_recording(path()).trace.value().threads, trace.threads);
}

TEST_F(Layout, RowsSayWhatHappened) {
  EXPECT_EQ(
      rows("SELECT copyKind, srcKind, dstKind, srcDeviceId, dstDeviceId, deviceId, bytes, start, end FROM CUPTI_ACTIVITY_KIND_MEMCPY"),
      (Texts{"10|0|0|0|1|0|4096|11|17", "10|0|0|1|0|1|4096|61|66"}));
  EXPECT_EQ(rows("SELECT name FROM TARGET_INFO_GPU ORDER BY id"), (Texts{"CPU core set cpu:0", "CPU core set cpu:1"}));
  EXPECT_EQ(rows("SELECT value, count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.shortName GROUP BY 1 ORDER BY "
                 "min(k.rowid) LIMIT 2"),
            (Texts{"forward conv1|2", "backward fc|1"}));
  EXPECT_EQ(rows("SELECT count(*), count(DISTINCT globalTid) FROM NVTX_EVENTS WHERE text = 'step 0'"), Texts{"2|2"});
  EXPECT_EQ(rows("SELECT utcEpochNs + 1, utcTime FROM TARGET_INFO_SESSION_START_TIME"), Texts{"1700000000000000123|2023-11-14T22:13:20"});
  EXPECT_EQ(rows("SELECT sum(t.layer = 0) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN MPTUNE_EVENT e ON e.event = k.rowid - 1 JOIN MPTUNE_TAG t "
                 "USING (tag)"),
            Texts{"5"});
}

TEST_F(Layout, EveryDeviceHasItsStepEvenWhenTheTraceHasNoRanges) {
  Trace trace = testing::hand_trace();
  trace.ranges.clear();
  trace.launches.clear();
  trace.threads.clear();
  write({.trace = trace});
  EXPECT_EQ(rows("SELECT value, text FROM NVTX_EVENTS n JOIN ThreadNames t USING (globalTid) JOIN StringIds s ON s.id = t.nameId WHERE "
                 "text = 'step 0' ORDER BY 1"),
            (Texts{"device cpu:0|step 0", "device cpu:1|step 0"}));
}

TEST_F(Layout, KernelsShowHowTheyWereLaunched) {
  write({.trace = testing::gpu_trace()});
  EXPECT_EQ(rows("SELECT value, deviceId, contextId, streamId, gridX, gridY, gridZ, blockX, blockY, blockZ, registersPerThread, "
                 "staticSharedMemory, dynamicSharedMemory FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = "
                 "k.demangledName ORDER BY start"),
            (Texts{"void gemm<float, 128>(float const*, int)|0|1|7|132|3|2|128|1|1|255|0|0", "elementwise|0|1|13|1|1|1|1024|1|1|32|48|0",
                   "dgrad|1|2|15|4|1|1|64|2|1|40|1024|65536"}));
  EXPECT_EQ(rows("SELECT count(DISTINCT gridId) = count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL"), Texts{"1"});
  // Copies share the context of their device's kernels and no stream with them.
  EXPECT_EQ(rows("SELECT copyKind, deviceId, contextId, srcContextId, dstContextId FROM CUPTI_ACTIVITY_KIND_MEMCPY ORDER BY rowid"),
            (Texts{"10|0|1|1|2", "1|0|1||", "2|1|2||"}));
  EXPECT_EQ(rows("SELECT 1 FROM CUPTI_ACTIVITY_KIND_MEMCPY m JOIN CUPTI_ACTIVITY_KIND_KERNEL k USING (contextId, streamId)"), Texts{});
}

TEST_F(Layout, CallsHaveTheirNamesAndNeedNoWork) {
  write({.trace = testing::gpu_trace()});
  EXPECT_EQ(rows("SELECT value, eventClass, count(*), sum(correlationId IN (SELECT correlationId FROM CUPTI_ACTIVITY_KIND_KERNEL)) FROM "
                 "CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId GROUP BY 1, 2"),
            (Texts{"cuMemAlloc_v2|1|1|0", "cudaLaunchKernel_v7000|0|4|3", "cudaStreamSynchronize_v3020|0|1|0", "launch|0|4|0"}));
}

TEST_F(Layout, TheRecordersOwnWorkIsOverhead) {
  write({.trace = testing::gpu_trace()});
  EXPECT_EQ(rows("SELECT start - 1, end - 1, s.value, label, t.name FROM PROFILER_OVERHEAD o JOIN StringIds s ON s.id = o.nameId JOIN "
                 "ENUM_CUPTI_OVERHEAD_TYPE e ON e.id = o.overheadType JOIN MPTUNE_THREAD t USING (globalTid) ORDER BY 3"),
            (Texts{"430|450|Buffer flush (Profiler)|Buffer flush (Profiler)|worker cuda:0", "430|440|stop|Unknown|worker cuda:1"}));
}

TEST_F(Layout, HoldsNoUserOrHostName) {
  std::ifstream file(path(), std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  for (const char* variable : {"USER", "HOME", "HOSTNAME", "PWD"}) {
    const char* value = std::getenv(variable);
    if (value != nullptr && std::string(value).size() > 3) {
      EXPECT_EQ(bytes.find(value), std::string::npos) << variable;
    }
  }
  EXPECT_EQ(bytes.find(std::filesystem::path(path()).parent_path().string()), std::string::npos);
}

}  // namespace
}  // namespace mptune::profiler
