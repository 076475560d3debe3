#pragma once

#include <optional>
#include <string>

#include "mptune/profiler/trace/profile.h"
#include "mptune/profiler/trace/trace.h"

namespace mptune {

/// What one trace file holds: a recording, the profile it was planned with, the plan that ran.
struct Recording {
  std::optional<Trace> trace{};
  std::optional<Profile> profile{};
  std::string plan_json{};    ///< the object `plan` of a plan file, "" where the recording is not of a plan
  std::string environment{};  ///< JSON object of what the machine is; no user, host or path
  double step_off_s = 0;      ///< median step without recording, 0: not measured
  double step_on_s = 0;       ///< with recording
};

/// Writes `recording` to a temporary file beside `path` and renames it, in the layout of an Nsight Systems SQLite export
/// (schema 3.25, CUDA + NVTX subset); our own data in tables named MPTUNE_*. Beside the trace it uses memory for an index per event only.
/// An existing file is replaced only if it is one of ours, or with `force`. Throws Error: a full disk (environment); a read-only folder, a
/// foreign file in the way (usage).
void write_recording(const Recording& recording, const std::string& path, bool force);

/// Reads a file written by write_recording. Of an Nsight Systems export made by others (schema 2.9 to 3.30, any table may be absent) it
/// reads what our tables have no word for: kernels (What::kernel, NCCL's What::collective) with their details, copies, memsets,
/// synchronisation and the profiler's own work (on every device of its process) become events without tags sorted by start; streams become
/// lanes, that which computes longest kComputeLane, and what overlaps on a stream (its waits are timed on the host) takes a lane beside it
/// (StreamLanes). API calls become launches, those that
/// started nothing with event -1. A stream's wait for an event becomes an event_wait edge from the last work before the event's record to
/// the next work after the wait. NVTX ranges become ranges (What::action) on the device their thread launches on, -1 where there is none;
/// the profile stays empty. `quality` counts rows without times, rows that end before they start (dropped) and device work without its
/// launch or before it (unmatched). Throws Error: missing, not SQLite, truncated, neither layout, a newer major schema version, wrong
/// types, sizes and counts beyond reason, edges that form a cycle, steps that overlap.
[[nodiscard]] Recording read_recording(const std::string& path);

}  // namespace mptune
