#pragma once

#include <cstdint>
#include <string>

#include <SQLiteCpp/SQLiteCpp.h>

namespace mptune::profiler {

/// Stops queries that take more operations than a file of this size can need: a view can run a query that never ends, and in a damaged file
/// pages may refer to each other, which makes the number of rows unlimited. A stopped query throws SQLite::Exception ("interrupted"). Texts
/// are limited to 100 MB, as a damaged row of a few bytes can claim a gigabyte. Must not outlive the database; use it from the database's
/// thread.
class WorkLimit {
 public:
  WorkLimit(SQLite::Database& database, std::uintmax_t file_bytes);
  ~WorkLimit();
  WorkLimit(const WorkLimit&) = delete;
  WorkLimit& operator=(const WorkLimit&) = delete;
  /// Allows all operations again, for a file that may have grown.
  void restart(std::uintmax_t file_bytes) { left_ = calls_for(file_bytes); }

 private:
  static std::uintmax_t calls_for(std::uintmax_t file_bytes);
  static int stop(void* self) { return static_cast<WorkLimit*>(self)->left_-- == 0 ? 1 : 0; }

  SQLite::Database& database_;
  std::uintmax_t left_;
};

/// Returns the name of the first view, virtual table or trigger among those that `condition`, a term of SQL on `name`, selects; "" if there
/// is none. They can return rows that are not in the file, and run queries of their own when others only read or add a row.
[[nodiscard]] std::string first_active_object(SQLite::Database& database, const std::string& condition = "1");

}  // namespace mptune::profiler
