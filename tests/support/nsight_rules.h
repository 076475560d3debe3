#pragma once

#include <string>
#include <vector>

namespace mptune::testing {

/// Queries on the trace file at `path` that find rows readers of an Nsight Systems export would misread; none where it means what they
/// expect. Throws SQLite::Exception where a required table is absent.
[[nodiscard]] std::vector<std::string> broken_rules(const std::string& path);

/// Tables of the layout in the trace file at `path` whose columns (name, order, type, NOT NULL, key) or enum rows differ from those of a
/// real export: the file `export_path`, and for what that lacks the statements in the file `schema_path`. Required tables that are absent
/// are named too.
[[nodiscard]] std::vector<std::string> layout_differences(const std::string& path, const std::string& export_path,
                                                          const std::string& schema_path);

/// Every row of a query's answer, columns joined by |.
[[nodiscard]] std::vector<std::string> rows_of(const std::string& path, const std::string& sql);

}  // namespace mptune::testing
