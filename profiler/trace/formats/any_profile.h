#pragma once

#include <string>

namespace mptune::profiler {

/// Formats of files with layer costs. They are detected by content, not by file name.
enum class ProfileFormat {
  sqlite,           ///< a file of mptune; profiler/trace/store reads it
  layer_graph,      ///< graph.txt of PipeDream and DAPPLE, gzip or not
  operator_tables,  ///< common prefix of Aceso's tables, not a file
  placement,        ///< JSON of dnn-partitioning, gzip or not
};

/// Detects the format from the beginning of the file, or from files with this prefix. Throws Error: unreadable, unknown format.
[[nodiscard]] ProfileFormat profile_format(const std::string& path);

}  // namespace mptune::profiler
