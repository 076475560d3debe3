#pragma once

#include <string>

#include "mptune/profiler/trace/trace.h"

namespace mptune {

/// Files that hold a trace, told apart by what is in them, not by their names.
enum class TraceFormat {
  sqlite,             ///< a recording of ours or an Nsight Systems export: profiler/store reads it
  kineto,             ///< Chrome JSON of PyTorch's profiler, gzip or not
  pipeline_timeline,  ///< Chrome JSON of pipelined training, gzip or not
};

/// Looks at the beginning of the file. Throws Error: unreadable, none of these formats.
[[nodiscard]] TraceFormat trace_format(const std::string& path);

/// Whether a file begins as SQLite files do; false where it can't be read.
[[nodiscard]] bool is_sqlite(const std::string& path);

/// Reads a trace of either JSON format. Throws Error as their readers do; std::invalid_argument for SQLite.
[[nodiscard]] Trace read_any_trace(const std::string& path);

}  // namespace mptune
