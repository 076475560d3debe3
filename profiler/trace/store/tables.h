#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <stdexcept>
#include <string>

#include "profiler/trace/values/profile.h"
#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// Invalid contents of a file's tables. read_recording turns it into an Error that names the file.
class BadContent : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Returns the first inconsistency of a trace: an index or size out of range, a negative duration, a duplicate correlation, a cycle. "" if
/// none.
[[nodiscard]] std::string inconsistency(const Trace& trace);

/// Largest absolute time of a recording [ns]; the sum of two still fits into 64 bits.
inline constexpr std::int64_t kFurthest = std::int64_t{1} << 61;

[[nodiscard]] bool has_table(SQLite::Database& database, const std::string& table);
[[nodiscard]] bool has_column(SQLite::Database& database, const std::string& table, const std::string& column);

/// Writes one row of MPTUNE_META.
void write_meta(SQLite::Database& database, const std::string& name, const std::string& value);
/// Reads a row of MPTUNE_META; "" if there is no such row.
[[nodiscard]] std::string read_meta(SQLite::Database& database, const std::string& name);
/// Reads a row as an integer. Throws BadContent if there is no such row or it is not an integer.
[[nodiscard]] std::int64_t read_meta_integer(SQLite::Database& database, const std::string& name);

/// Fills the Nsight tables and the MPTUNE_ tables. Requires: empty tables of schema.sql, a consistent trace.
void write_trace(SQLite::Database& database, const Trace& trace);
/// The inverse of write_trace.
[[nodiscard]] Trace read_trace(SQLite::Database& database);
/// Reads the Nsight tables only; any of them may be absent.
[[nodiscard]] Trace read_nsight(SQLite::Database& database);

void write_profile(SQLite::Database& database, const Profile& profile);
/// The inverse of write_profile.
[[nodiscard]] Profile read_profile(SQLite::Database& database);

}  // namespace mptune::profiler
