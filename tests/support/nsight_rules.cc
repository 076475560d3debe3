#include "tests/support/nsight_rules.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

namespace mptune::testing {
namespace {

using Rules = std::vector<std::string>;

constexpr const char* kRequired[] = {"StringIds",
                                     "PROCESSES",
                                     "ThreadNames",
                                     "CUPTI_ACTIVITY_KIND_KERNEL",
                                     "CUPTI_ACTIVITY_KIND_MEMCPY",
                                     "CUPTI_ACTIVITY_KIND_MEMSET",
                                     "CUPTI_ACTIVITY_KIND_RUNTIME",
                                     "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
                                     "PROFILER_OVERHEAD",
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
                                     "ENUM_CUDA_KERNEL_LAUNCH_TYPE",
                                     "ENUM_CUPTI_SYNC_TYPE",
                                     "ENUM_CUPTI_STREAM_TYPE",
                                     "ENUM_CUPTI_OVERHEAD_TYPE",
                                     "ENUM_CUDA_FUNC_CACHE_CONFIG",
                                     "ENUM_DIAGNOSTIC_SEVERITY_LEVEL",
                                     "ENUM_DIAGNOSTIC_SOURCE_TYPE",
                                     "ENUM_DIAGNOSTIC_TIMESTAMP_SOURCE",
                                     "ENUM_NSYS_EVENT_CLASS",
                                     "ENUM_NSYS_EVENT_TYPE"};

std::vector<std::string> rows(SQLite::Database& database, const std::string& sql) {
  std::vector<std::string> result;
  SQLite::Statement query(database, sql);
  while (query.executeStep()) {
    std::string row;
    for (int i = 0; i < query.getColumnCount(); ++i) row.append(i == 0 ? "" : "|").append(query.getColumn(i).getString());
    result.push_back(row);
  }
  return result;
}

bool finds_none(SQLite::Database& database, const std::string& sql) {
  SQLite::Statement query(database, sql);
  return !query.executeStep();
}

// SQLite evaluates each subquery once and looks correlations up in its sorted result.
void add_rules_of_work(Rules& rules, const std::string& table) {
  const std::string from = "SELECT 1 FROM CUPTI_ACTIVITY_KIND_" + table + " WHERE ";
  rules.push_back(from + "globalPid IS NULL OR globalPid & 0xFFFFFF <> 0 OR globalPid >> 48 & 0xFF <> 1 OR globalPid >> 56 <> 0");
  rules.push_back(from +
                  "correlationId IS NOT NULL AND (correlationId, globalPid) NOT IN (SELECT correlationId, globalTid & ~0xFFFFFF FROM "
                  "CUPTI_ACTIVITY_KIND_RUNTIME)");
  rules.push_back(from +
                  "deviceId NOT IN (SELECT id FROM TARGET_INFO_GPU) OR deviceId NOT IN (SELECT cudaId FROM TARGET_INFO_CUDA_DEVICE)");
  rules.push_back(from + "(streamId, contextId) NOT IN (SELECT streamId, contextId FROM TARGET_INFO_CUDA_STREAM)");
  rules.push_back(from + "(contextId, deviceId) NOT IN (SELECT contextId, deviceId FROM TARGET_INFO_CUDA_CONTEXT_INFO)");
}

void add_rules_of_times(Rules& rules) {
  for (const char* table : {"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET",
                            "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_RUNTIME", "PROFILER_OVERHEAD", "NVTX_EVENTS"})
    rules.push_back(std::string("SELECT 1 FROM ") + table +
                    " WHERE end < start OR start <= 0 OR end > (SELECT duration FROM ANALYSIS_DETAILS) OR NOT EXISTS (SELECT 1 FROM "
                    "ANALYSIS_DETAILS)");
}

void add_rules_of_names(Rules& rules) {
  for (const auto& [table, column] : {std::pair{"CUPTI_ACTIVITY_KIND_KERNEL", "demangledName"},
                                      {"CUPTI_ACTIVITY_KIND_KERNEL", "shortName"},
                                      {"CUPTI_ACTIVITY_KIND_RUNTIME", "nameId"},
                                      {"PROFILER_OVERHEAD", "nameId"},
                                      {"ThreadNames", "nameId"}})
    rules.push_back(std::string("SELECT 1 FROM ") + table + " WHERE " + column + " NOT IN (SELECT id FROM StringIds)");
  for (const auto& [table, column, kinds] : {std::tuple{"CUPTI_ACTIVITY_KIND_MEMCPY", "copyKind", "CUDA_MEMCPY_OPER"},
                                             {"CUPTI_ACTIVITY_KIND_MEMCPY", "srcKind", "CUDA_MEM_KIND"},
                                             {"CUPTI_ACTIVITY_KIND_MEMCPY", "dstKind", "CUDA_MEM_KIND"},
                                             {"CUPTI_ACTIVITY_KIND_MEMSET", "memKind", "CUDA_MEM_KIND"},
                                             {"CUPTI_ACTIVITY_KIND_KERNEL", "launchType", "CUDA_KERNEL_LAUNCH_TYPE"},
                                             {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "syncType", "CUPTI_SYNC_TYPE"},
                                             {"CUPTI_ACTIVITY_KIND_RUNTIME", "eventClass", "NSYS_EVENT_CLASS"},
                                             {"PROFILER_OVERHEAD", "overheadType", "CUPTI_OVERHEAD_TYPE"},
                                             {"TARGET_INFO_CUDA_STREAM", "flag", "CUPTI_STREAM_TYPE"},
                                             {"NVTX_EVENTS", "eventType", "NSYS_EVENT_TYPE"}})
    rules.push_back(std::string("SELECT 1 FROM ") + table + " WHERE " + column + " NOT IN (SELECT id FROM ENUM_" + kinds + ")");
}

void add_rules_of_copies(Rules& rules) {
  rules.push_back(
      "SELECT 1 FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE copyKind = 10 AND (srcDeviceId IS NULL OR dstDeviceId IS NULL OR srcContextId IS "
      "NULL "
      "OR dstContextId IS NULL OR srcDeviceId = dstDeviceId)");
  rules.push_back("SELECT 1 FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE copyKind = 8 AND srcDeviceId <> dstDeviceId");
  rules.push_back("SELECT 1 FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE bytes < 0");
}

// Both columns of an NVTX name must be set: some readers know only one of them.
void add_rules_of_ranges(Rules& rules) {
  rules.push_back("SELECT 1 FROM NVTX_EVENTS WHERE eventType IN (59, 60) AND (end IS NULL OR (text IS NULL AND textId IS NULL))");
  rules.push_back("SELECT 1 FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId WHERE s.value IS NOT n.text");
  rules.push_back(
      "SELECT 1 FROM NVTX_EVENTS WHERE domainId > 0 AND domainId NOT IN (SELECT domainId FROM NVTX_EVENTS WHERE eventType = 75)");
  rules.push_back("SELECT 1 FROM NVTX_EVENTS WHERE globalTid NOT IN (SELECT globalTid FROM ThreadNames)");
}

// Integer columns must hold integers only: typed readers refuse the file otherwise.
void add_rules_of_types(Rules& rules, SQLite::Database& database) {
  for (const std::string& table : rows(database, "SELECT name FROM sqlite_master WHERE type = 'table'"))
    for (const std::string& column : rows(database, "SELECT name FROM pragma_table_info('" + table + "') WHERE type = 'INTEGER'"))
      rules.push_back("SELECT 1 FROM " + table + " WHERE typeof(\"" + column + "\") NOT IN ('integer', 'null')");
}

}  // namespace

std::vector<std::string> broken_rules(const std::string& path) {
  SQLite::Database database(path, SQLite::OPEN_READONLY);
  Rules rules;
  for (const char* table : {"KERNEL", "MEMCPY", "MEMSET", "SYNCHRONIZATION"}) add_rules_of_work(rules, table);
  add_rules_of_times(rules);
  add_rules_of_names(rules);
  add_rules_of_copies(rules);
  add_rules_of_ranges(rules);
  add_rules_of_types(rules, database);
  rules.push_back("SELECT 1 FROM CUPTI_ACTIVITY_KIND_RUNTIME GROUP BY globalTid >> 24, correlationId HAVING count(*) > 1");
  rules.push_back(
      "SELECT 1 FROM TARGET_INFO_GPU g LEFT JOIN TARGET_INFO_CUDA_DEVICE d ON d.gpuId = g.id WHERE d.cudaId IS NOT g.id OR g.cuDevice IS "
      "NOT g.id");
  std::erase_if(rules, [&](const std::string& rule) { return finds_none(database, rule); });
  return rules;
}

std::vector<std::string> layout_differences(const std::string& path, const std::string& export_path, const std::string& schema_path) {
  SQLite::Database ours(path, SQLite::OPEN_READONLY);
  SQLite::Database real(export_path, SQLite::OPEN_READONLY);
  SQLite::Database stated(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  std::stringstream sql;
  sql << std::ifstream(schema_path).rdbuf();
  stated.exec(sql.str());
  const auto tables = rows(ours, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'MPTUNE%'");
  std::vector<std::string> differences;
  for (const char* required : kRequired)
    if (std::find(tables.begin(), tables.end(), required) == tables.end()) differences.push_back(std::string(required) + " is absent");
  for (const std::string& table : tables) {
    const std::string columns = "SELECT name, type, \"notnull\", pk FROM pragma_table_info('" + table + "') ORDER BY cid";
    const std::vector<std::string> expected = rows(real.tableExists(table) ? real : stated, columns);
    if (rows(ours, columns) != expected) differences.push_back(table);
    if (table.starts_with("ENUM_") && rows(ours, "SELECT * FROM " + table) != rows(real, "SELECT * FROM " + table))
      differences.push_back("rows of " + table);
  }
  return differences;
}

std::vector<std::string> rows_of(const std::string& path, const std::string& sql) {
  SQLite::Database database(path, SQLite::OPEN_READONLY);
  return rows(database, sql);
}

}  // namespace mptune::testing
