#pragma once

#include <string>

#include "mptune/profiler/trace/trace.h"

namespace mptune {

/// Writes a Perfetto protobuf trace (ui.perfetto.dev, trace_processor), times exact to the nanosecond: a process per device, in it a track
/// per lane, named by what is on it, and one each for steps and actions, a counter of its memory, and on a process of their own the host's
/// threads with their launches, and the steps where no range shows them; edges that begin or end at a copy are flow arrows. Ranges that
/// overlap without nesting are cut at their surroundings' end. Events carry step, stage, micro-batch, layer and replica, copies their
/// bytes. Throws Error where the file can't be written.
void write_perfetto(const Trace& trace, const std::string& path);
/// The bytes that every file of write_perfetto begins with, and no other program's does.
[[nodiscard]] std::string perfetto_magic();

}  // namespace mptune
