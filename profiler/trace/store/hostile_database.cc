#include "profiler/trace/store/hostile_database.h"

#include <sqlite3.h>

namespace mptune::profiler {
namespace {

// 20 operations per byte are plenty: a row of mptune has at least 18 bytes and takes 20 operations.
constexpr int kOperationsPerCall = 1000;
constexpr std::uintmax_t kBytesPerCall = 50;
constexpr std::uintmax_t kLeastCalls = 1000;
constexpr int kLongestText = 100'000'000;

}  // namespace

WorkLimit::WorkLimit(SQLite::Database& database, std::uintmax_t file_bytes) : database_(database), left_(calls_for(file_bytes)) {
  sqlite3_progress_handler(database_.getHandle(), kOperationsPerCall, &WorkLimit::stop, this);
  sqlite3_limit(database_.getHandle(), SQLITE_LIMIT_LENGTH, kLongestText);
}

std::uintmax_t WorkLimit::calls_for(std::uintmax_t file_bytes) {
  return kLeastCalls + file_bytes / kBytesPerCall;
}

WorkLimit::~WorkLimit() {
  sqlite3_progress_handler(database_.getHandle(), 0, nullptr, nullptr);
}

std::string first_active_object(SQLite::Database& database, const std::string& condition) {
  SQLite::Statement query(database,
                          "SELECT name FROM sqlite_master WHERE (type IN ('view', 'trigger') OR type = 'table' AND sql LIKE "
                          "'CREATE VIRTUAL%') AND (" +
                              condition + ")");
  return query.executeStep() ? query.getColumn(0).getString() : "";
}

}  // namespace mptune::profiler
