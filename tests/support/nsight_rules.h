#pragma once

#include <string>
#include <vector>

namespace mptune::testing {

/// Rules that the trace file at `path` violates: queries that find rows which readers of an Nsight Systems export would misread.
/// Throws SQLite::Exception if a required table is missing.
[[nodiscard]] std::vector<std::string> broken_rules(const std::string& path);

/// Tables in the trace file at `path` whose columns (name, order, type, NOT NULL, key) or enum rows differ from a real Nsight export, and
/// missing required tables. The export is the file `export_path`; tables that it lacks come from the statements in `schema_path`.
[[nodiscard]] std::vector<std::string> layout_differences(const std::string& path, const std::string& export_path,
                                                          const std::string& schema_path);

/// Rows of a query's result, columns joined by |.
[[nodiscard]] std::vector<std::string> rows_of(const std::string& path, const std::string& sql);

}  // namespace mptune::testing
