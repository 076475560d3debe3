#pragma once

#include <string>

namespace mptune {

/// Files that hold what a model's layers cost, told apart by what is in them, not by their names.
enum class ProfileFormat {
  sqlite,           ///< a recording of ours: profiler/store reads it
  layer_graph,      ///< graph.txt of PipeDream and DAPPLE, gzip or not
  operator_tables,  ///< no file, but the common prefix of Aceso's tables
  placement,        ///< JSON of dnn-partitioning, gzip or not
};

/// Looks at the beginning of the file, or for files with this prefix. Throws Error: unreadable, none of these formats.
[[nodiscard]] ProfileFormat profile_format(const std::string& path);

}  // namespace mptune
