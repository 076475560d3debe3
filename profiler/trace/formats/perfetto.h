#pragma once

#include <string>

#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// Writes a Perfetto protobuf trace (ui.perfetto.dev, trace_processor), times exact to the nanosecond. Throws Error if it can't be written.
/// - Each device is a process with a track per lane, tracks for steps and actions, and a counter of its memory.
/// - The host is a process with a track per thread, which shows launches. It also shows steps that have no range.
/// - Edges from or to a copy are flow arrows.
/// - Events carry step, stage, micro-batch, layer and replica; copies carry their bytes.
/// - A range that overlaps another without being nested in it ends where the other ends.
void write_perfetto(const Trace& trace, const std::string& path);
/// Returns the first bytes of every file of write_perfetto; files of other programs begin differently.
[[nodiscard]] std::string perfetto_magic();

}  // namespace mptune::profiler
