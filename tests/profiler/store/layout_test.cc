#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <tuple>
#include <vector>

#include "mptune/profiler/store/schema.h"
#include "mptune/tests/profiler/store/scratch.h"

namespace mptune {
namespace {

using Column = std::tuple<std::string, std::string, int, int>;  // name, declared type, not null, primary key

std::vector<Column> columns(SQLite::Database& database, const std::string& table) {
  std::vector<Column> result;
  SQLite::Statement query(database, "PRAGMA table_info(" + table + ")");
  while (query.executeStep())
    result.emplace_back(query.getColumn(1).getString(), query.getColumn(2).getString(), query.getColumn(3).getInt(),
                        query.getColumn(5).getInt());
  return result;
}

std::vector<std::string> texts(SQLite::Database& database, const std::string& sql) {
  std::vector<std::string> result;
  SQLite::Statement query(database, sql);
  while (query.executeStep()) {
    std::string row;
    for (int i = 0; i < query.getColumnCount(); ++i) row.append(i == 0 ? "" : "|").append(query.getColumn(i).getString());
    result.push_back(row);
  }
  return result;
}

class Layout : public testing::Scratch {
 protected:
  Layout() { write_hand_made(); }
  SQLite::Database open() const { return {path(), SQLite::OPEN_READONLY}; }
};

TEST_F(Layout, EqualsTheRealExports) {
  const std::string fixture = testing::shared_data("nsys/h100_2gpu_1s.sqlite");
  const std::string old_schema = testing::shared_data("nsys/nsys-3.24-schema.sql");
  if (fixture.empty() || old_schema.empty()) GTEST_SKIP() << "the shared data are absent; set MPTUNE_DATA_DIR";
  SQLite::Database real(fixture, SQLite::OPEN_READONLY);
  SQLite::Database old(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  std::stringstream sql;
  sql << std::ifstream(old_schema).rdbuf();
  old.exec(sql.str());
  SQLite::Database ours = open();
  int compared = 0;
  for (const std::string& table : texts(ours, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'MPTUNE%'")) {
    const bool from_old = table == "TARGET_INFO_GPU" || table == "TARGET_INFO_CUDA_DEVICE" || table == "TARGET_INFO_CUDA_CONTEXT_INFO";
    EXPECT_EQ(columns(ours, table), columns(from_old ? old : real, table)) << table;
    if (table.starts_with("ENUM_")) {
      EXPECT_EQ(texts(ours, "SELECT * FROM " + table), texts(real, "SELECT * FROM " + table)) << table;
    }
    ++compared;
  }
  EXPECT_EQ(compared, 30);
}

TEST_F(Layout, HoldsEveryRequiredTable) {
  SQLite::Database ours = open();
  for (const char* table : {"StringIds",
                            "PROCESSES",
                            "ThreadNames",
                            "CUPTI_ACTIVITY_KIND_KERNEL",
                            "CUPTI_ACTIVITY_KIND_MEMCPY",
                            "CUPTI_ACTIVITY_KIND_MEMSET",
                            "CUPTI_ACTIVITY_KIND_RUNTIME",
                            "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
                            "NVTX_EVENTS",
                            "TARGET_INFO_GPU",
                            "TARGET_INFO_CUDA_DEVICE",
                            "TARGET_INFO_CUDA_CONTEXT_INFO",
                            "TARGET_INFO_CUDA_STREAM",
                            "TARGET_INFO_SESSION_START_TIME",
                            "ANALYSIS_DETAILS",
                            "META_DATA_EXPORT",
                            "META_DATA_CAPTURE",
                            "ENUM_CUDA_MEMCPY_OPER",
                            "ENUM_CUDA_MEM_KIND",
                            "ENUM_NSYS_EVENT_TYPE"})
    EXPECT_TRUE(ours.tableExists(table)) << table;
  EXPECT_TRUE(texts(ours, "SELECT name FROM sqlite_master WHERE name LIKE 'MPTUNE%KERNEL%' OR type IN ('view', 'trigger')").empty());
  EXPECT_TRUE(texts(ours, "SELECT name FROM sqlite_master WHERE type = 'index' AND name NOT LIKE 'sqlite_autoindex%'").empty());
}

TEST_F(Layout, FileHasTheExportsSettings) {
  SQLite::Database ours = open();
  EXPECT_EQ(texts(ours, "PRAGMA page_size"), std::vector<std::string>{"4096"});
  EXPECT_EQ(texts(ours, "PRAGMA journal_mode"), std::vector<std::string>{"delete"});
  EXPECT_EQ(texts(ours, "PRAGMA user_version"), std::vector<std::string>{"0"});
  EXPECT_EQ(texts(ours, "PRAGMA application_id"), std::vector<std::string>{"0"});
  EXPECT_EQ(texts(ours, "PRAGMA encoding"), std::vector<std::string>{"UTF-8"});
  EXPECT_EQ(texts(ours, "PRAGMA integrity_check"), std::vector<std::string>{"ok"});
}

TEST_F(Layout, IntegerColumnsHoldIntegersOnly) {
  SQLite::Database ours = open();
  for (const std::string& table : texts(ours, "SELECT name FROM sqlite_master WHERE type = 'table'")) {
    for (const auto& [name, type, not_null, key] : columns(ours, table)) {
      if (type != "INTEGER") continue;
      EXPECT_TRUE(texts(ours, "SELECT 1 FROM " + table + " WHERE typeof(\"" + name + "\") NOT IN ('integer', 'null')").empty())
          << table << "." << name;
    }
  }
}

// Section D2 of the layout's definition: every query finds nothing.
TEST_F(Layout, MeansWhatReadersExpect) {
  SQLite::Database ours = open();
  std::vector<std::string> faults;
  for (const std::string table : {"KERNEL", "MEMCPY", "MEMSET", "SYNCHRONIZATION", "RUNTIME"}) {
    const std::string from = " FROM CUPTI_ACTIVITY_KIND_" + table + " r ";
    faults.push_back("SELECT 1" + from + "WHERE end < start OR start <= 0 OR end > (SELECT duration FROM ANALYSIS_DETAILS)");
    if (table == "RUNTIME") continue;
    faults.push_back("SELECT 1" + from + "WHERE globalPid & 0xFFFFFF <> 0 OR globalPid >> 48 & 0xFF <> 1");
    faults.push_back("SELECT 1" + from +
                     "WHERE correlationId IS NOT NULL AND NOT EXISTS (SELECT 1 FROM CUPTI_ACTIVITY_KIND_RUNTIME a WHERE "
                     "a.correlationId = r.correlationId AND a.globalTid & ~0xFFFFFF = r.globalPid)");
    faults.push_back(
        "SELECT 1" + from +
        "WHERE deviceId NOT IN (SELECT id FROM TARGET_INFO_GPU) OR deviceId NOT IN (SELECT cudaId FROM TARGET_INFO_CUDA_DEVICE)");
    faults.push_back(
        "SELECT 1" + from +
        "WHERE NOT EXISTS (SELECT 1 FROM TARGET_INFO_CUDA_STREAM s WHERE s.streamId = r.streamId AND s.contextId = r.contextId)");
    faults.push_back(
        "SELECT 1" + from +
        "WHERE NOT EXISTS (SELECT 1 FROM TARGET_INFO_CUDA_CONTEXT_INFO c WHERE c.contextId = r.contextId AND c.deviceId = r.deviceId)");
  }
  for (const std::string column : {"demangledName", "shortName"})
    faults.push_back("SELECT 1 FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE " + column + " NOT IN (SELECT id FROM StringIds)");
  faults.push_back("SELECT 1 FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE nameId NOT IN (SELECT id FROM StringIds)");
  faults.push_back("SELECT 1 FROM ThreadNames WHERE nameId NOT IN (SELECT id FROM StringIds)");
  faults.push_back("SELECT 1 FROM CUPTI_ACTIVITY_KIND_RUNTIME GROUP BY globalTid >> 24, correlationId HAVING count(*) > 1");
  faults.push_back("SELECT 1 FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE copyKind NOT IN (SELECT id FROM ENUM_CUDA_MEMCPY_OPER)");
  faults.push_back(
      "SELECT 1 FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE copyKind = 10 AND (srcDeviceId IS NULL OR dstDeviceId IS NULL OR srcContextId IS "
      "NULL OR "
      "dstContextId IS NULL OR srcDeviceId = dstDeviceId)");
  faults.push_back("SELECT 1 FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE copyKind = 8 AND srcDeviceId <> dstDeviceId");
  faults.push_back("SELECT 1 FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE srcKind NOT IN (SELECT id FROM ENUM_CUDA_MEM_KIND)");
  faults.push_back(
      "SELECT 1 FROM NVTX_EVENTS WHERE text IS NULL OR textId IS NULL OR end IS NULL OR end < start OR start <= 0 OR domainId > 0 OR "
      "end > (SELECT duration FROM ANALYSIS_DETAILS)");
  faults.push_back("SELECT 1 FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId WHERE s.value IS NOT n.text");
  faults.push_back("SELECT 1 FROM NVTX_EVENTS WHERE globalTid NOT IN (SELECT globalTid FROM ThreadNames)");
  faults.push_back(
      "SELECT 1 FROM TARGET_INFO_GPU g LEFT JOIN TARGET_INFO_CUDA_DEVICE d ON d.gpuId = g.id WHERE d.cudaId IS NOT g.id OR g.cuDevice IS "
      "NOT g.id");
  for (const std::string& fault : faults) EXPECT_TRUE(texts(ours, fault).empty()) << fault;
}

TEST_F(Layout, LeavesNeverOverlapOnAStream) {
  SQLite::Database ours = open();
  EXPECT_TRUE(
      texts(
          ours,
          "WITH leaf AS (SELECT start, end, deviceId d, streamId s FROM CUPTI_ACTIVITY_KIND_KERNEL UNION ALL SELECT start, end, deviceId, "
          "streamId FROM CUPTI_ACTIVITY_KIND_MEMCPY UNION ALL SELECT start, end, deviceId, streamId FROM CUPTI_ACTIVITY_KIND_MEMSET UNION "
          "ALL "
          "SELECT start, end, deviceId, streamId FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION) "
          "SELECT 1 FROM (SELECT start, lag(end) OVER (PARTITION BY d, s ORDER BY start) before FROM leaf) WHERE start < before")
          .empty());
}

TEST_F(Layout, RowsSayWhatHappened) {
  SQLite::Database ours = open();
  EXPECT_EQ(
      texts(ours,
            "SELECT copyKind, srcKind, dstKind, srcDeviceId, dstDeviceId, deviceId, bytes, start, end FROM CUPTI_ACTIVITY_KIND_MEMCPY"),
      (std::vector<std::string>{"10|0|0|0|1|0|4096|11|17", "10|0|0|1|0|1|4096|61|66"}));
  EXPECT_EQ(texts(ours, "SELECT name FROM TARGET_INFO_GPU ORDER BY id"),
            (std::vector<std::string>{"CPU core set cpu:0", "CPU core set cpu:1"}));
  EXPECT_EQ(texts(ours,
                  "SELECT value, count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.shortName GROUP BY 1 ORDER BY "
                  "min(k.rowid) LIMIT 2"),
            (std::vector<std::string>{"forward conv1|2", "backward fc|1"}));
  EXPECT_EQ(texts(ours, "SELECT count(*), count(DISTINCT globalTid) FROM NVTX_EVENTS WHERE text = 'step 0'"),
            std::vector<std::string>{"2|2"});
  EXPECT_EQ(texts(ours, "SELECT utcEpochNs + 1, utcTime FROM TARGET_INFO_SESSION_START_TIME"),
            std::vector<std::string>{"1700000000000000123|2023-11-14T22:13:20"});
  EXPECT_EQ(texts(ours,
                  "SELECT sum(t.layer = 0) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN MPTUNE_EVENT e ON e.event = k.gridId JOIN MPTUNE_TAG t "
                  "USING (tag)"),
            std::vector<std::string>{"5"});
}

TEST_F(Layout, EveryDeviceHasItsStepEvenWhenTheTraceHasNoRanges) {
  Trace trace = testing::hand_trace();
  trace.ranges.clear();
  trace.launches.clear();
  trace.threads.clear();
  write_recording({.trace = trace}, path(), false);
  SQLite::Database ours = open();
  EXPECT_EQ(texts(ours,
                  "SELECT value, text FROM NVTX_EVENTS n JOIN ThreadNames t USING (globalTid) JOIN StringIds s ON s.id = t.nameId WHERE "
                  "text = 'step 0' ORDER BY 1"),
            (std::vector<std::string>{"device cpu:0|step 0", "device cpu:1|step 0"}));
}

TEST_F(Layout, NamesNobody) {
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
}  // namespace mptune
