#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <stdexcept>
#include <string>

#include "mptune/profiler/trace/profile.h"
#include "mptune/profiler/trace/trace.h"

namespace mptune {

/// A file whose tables do not hold what they should. read_recording adds which file it is.
class BadContent : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What is wrong with a trace: an index or a size out of range, a negative duration, a correlation twice, a cycle; "" where nothing is.
[[nodiscard]] std::string inconsistency(const Trace& trace);

/// Further from 0 no time of a recording lies, in nanoseconds; sums of two stay in range.
inline constexpr std::int64_t kFurthest = std::int64_t{1} << 61;

[[nodiscard]] bool has_table(SQLite::Database& database, const std::string& table);
[[nodiscard]] bool has_column(SQLite::Database& database, const std::string& table, const std::string& column);

/// One row of MPTUNE_META.
void write_meta(SQLite::Database& database, const std::string& name, const std::string& value);
/// "" where there is no such row.
[[nodiscard]] std::string read_meta(SQLite::Database& database, const std::string& name);
/// Throws BadContent where there is no such row or it holds no integer.
[[nodiscard]] std::int64_t read_meta_integer(SQLite::Database& database, const std::string& name);

/// Fills the layout's tables and ours. Requires: a schema without rows, a consistent trace.
void write_trace(SQLite::Database& database, const Trace& trace);
/// Inverse of write_trace.
[[nodiscard]] Trace read_trace(SQLite::Database& database);
/// Reads the layout's tables alone, of which any may be absent.
[[nodiscard]] Trace read_nsight(SQLite::Database& database);

void write_profile(SQLite::Database& database, const Profile& profile);
/// Inverse of write_profile.
[[nodiscard]] Profile read_profile(SQLite::Database& database);

}  // namespace mptune
