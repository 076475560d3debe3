#pragma once

#include <string>
#include <vector>

#include "profiler/store/store.h"
#include "profiler/trace/communication.h"
#include "reports/cli/session.h"
#include "reports/report.h"

namespace mptune::reports {

/// True if the file begins as a plan file does; false, too, where it can't be read.
[[nodiscard]] bool is_plan_file(const std::string& path);

/// True for a folder that is no recording: a study, or what is taken for one.
[[nodiscard]] bool is_study_folder(const std::string& path);

/// A recording out of any file that holds one: ours, an Nsight Systems export, Kineto JSON, a pipeline timeline, times of
/// its actions. It has a trace.
/// Throws Error: unreadable, of no known format, damaged, without a trace, one of several files of export.
[[nodiscard]] profiler::Recording read_any_recording(const std::string& path);

/// The recordings of the processes of one job, one file each: Nsight Systems exports or Kineto JSON. Throws Error as read_any_recording
/// does, and for a pipeline timeline, which holds all ranks, and what mptune wrote, which holds all devices or one.
[[nodiscard]] std::vector<profiler::RankRecording> read_rank_recordings(const std::vector<std::string>& paths);

/// True if `mptune export` wrote the file as Kineto JSON. False, too, where it can't be read.
[[nodiscard]] bool is_kineto_export(const std::string& path);

/// The report of a recording, with what its plan and profile add if it has them. `name` is in the title.
[[nodiscard]] TraceReport report_of_recording(const profiler::Recording& recording, const std::string& name);

/// The report of a trace that mptune did not record: without plan and stages where they are not known.
[[nodiscard]] std::string render_foreign_trace(const TraceReport& report, const TextStyle& style);
/// The same as keys of `json`.
void put_foreign_trace(planner::Json& json, const TraceReport& report);

/// The exit code of a result that rests on this trace: inconclusive, with a warning, where its quality forbids a verdict.
[[nodiscard]] int verdict_code(const Session& session, const TraceReport& report);

}  // namespace mptune::reports
