#pragma once

#include <optional>
#include <string>

#include "profiler/trace/values/profile.h"
#include "profiler/trace/values/trace.h"
#include "profiler/trace/values/training_spec.h"

namespace mptune::profiler {

/// Contents of one trace file: a recording, the profile that the plan was made from, and the plan that ran.
struct Recording {
  std::optional<Trace> trace{};
  std::optional<Profile> profile{};
  std::string plan_json{};    ///< the object `plan` of a plan file; "" if no plan was recorded
  std::string environment{};  ///< JSON object that describes the machine; without user, host name or paths
  double step_off_s = 0;      ///< median step without recording, 0: not measured
  double step_on_s = 0;       ///< median step with recording, 0: not measured
  TrainingSpec training{};    ///< what was asked for, without folders; empty in files of earlier versions
};

/// Writes `recording` to a temporary file beside `path` and renames it. Needs memory for one index per event.
/// The layout is that of an Nsight Systems SQLite export (schema 3.25, CUDA + NVTX subset), with mptune's own tables MPTUNE_*.
/// Replaces an existing file only if mptune wrote it, or with `force`.
/// Throws Error: a full disk (environment); a read-only folder or an existing file of another program (usage).
void write_recording(const Recording& recording, const std::string& path, bool force);

/// Reads a file written by write_recording, or an Nsight Systems export (schema 2.9 to 3.30; any table may be absent).
/// An Nsight Systems export becomes a trace without tags and without a profile:
/// - Kernels, copies, memsets, synchronisation and the profiler's own work become events sorted by start, kernels with their details.
///   Kernels are EventKind::kernel, NCCL's EventKind::collective. The profiler's own work counts on every device of its process.
/// - A CUDA graph recorded as a whole (CUPTI_ACTIVITY_KIND_GRAPH_TRACE) is one kernel named kWholeGraphName; it is left out where its nodes
///   are recorded. Rows may be in any order.
/// - Streams become lanes (StreamLanes). Waits are timed on the host and get lanes of their own where they overlap the stream's work.
/// - API calls become launches; event is -1 for calls that launched nothing.
/// - A stream's wait for an event becomes an event_wait edge from the last work before the event's record to the next after the wait.
/// - NVTX ranges become ranges (EventKind::action) on the device that their thread launches on, -1 if it launches nothing.
/// - Work and calls with times that can't be right (plausible_times.h) are named in `implausible` and left out, as are ranges with them;
///   work that overruns the next of its stream (overruns.h) is named and cut there.
/// - `quality` counts rows without times (zero_stamped), rows left out (dropped), and device work without a launch or
///   earlier than it by more than kMostClockSkew (unmatched). Copies of unified memory have none. Work launched before the first recorded
///   call of its process was launched before the recording (cut_off).
/// Throws Error: missing, not SQLite, truncated, neither layout, a newer major schema version, wrong types, sizes or counts out of range,
/// edges that form a cycle, steps that overlap, an export without any row of CUDA or NVTX.
[[nodiscard]] Recording read_recording(const std::string& path);

}  // namespace mptune::profiler
