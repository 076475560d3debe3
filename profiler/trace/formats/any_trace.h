#pragma once

#include <string>

#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// Formats of files with a trace. They are detected by content, not by file name.
enum class TraceFormat {
  sqlite,             ///< a file of mptune or an Nsight Systems export; profiler/trace/store reads it
  kineto,             ///< Chrome JSON of PyTorch's profiler, gzip or not
  pipeline_timeline,  ///< Chrome JSON of pipelined training, gzip or not
  action_times,       ///< start and end of every forward and backward: JSON, a folder of JSON files, or a table
};

/// Detects the format from the beginning of the file, or from a folder's files. Throws Error: unreadable, unknown format.
[[nodiscard]] TraceFormat trace_format(const std::string& path);

/// True if the file begins like an SQLite file; false if it can't be read.
[[nodiscard]] bool is_sqlite(const std::string& path);

/// Reads a trace of any format but SQLite. Throws Error as their readers do; std::invalid_argument for SQLite.
[[nodiscard]] Trace read_any_trace(const std::string& path);

}  // namespace mptune::profiler
