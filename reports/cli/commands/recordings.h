#pragma once

#include <string>
#include <vector>

#include "profiler/trace/store/store.h"
#include "profiler/trace/values/communication.h"
#include "reports/cli/program/session.h"
#include "reports/values/report.h"

namespace mptune::reports {

/// Returns true if the file begins as a plan file does; false also where it can't be read.
[[nodiscard]] bool is_plan_file(const std::string& path);

/// Returns true for a folder that is no recording: a study, or what is taken for one.
[[nodiscard]] bool is_study_folder(const std::string& path);

/// Reads a recording from any file that holds one: ours, an Nsight Systems export, Kineto JSON, a pipeline timeline, times of its actions.
/// The recording has a trace. Throws Error for a file that is unreadable, of no known format, damaged, without a trace, or one of several
/// files of export.
[[nodiscard]] profiler::Recording read_any_recording(const std::string& path);

/// Reads the recordings of the processes of one job, one file each: Nsight Systems exports or Kineto JSON. Throws Error as
/// read_any_recording does, and for a pipeline timeline, which holds all ranks, and what mptune wrote, which holds all devices or one.
[[nodiscard]] std::vector<profiler::RankRecording> read_rank_recordings(const std::vector<std::string>& paths);

/// Returns true if `mptune export` wrote the file as Kineto JSON; false also where it can't be read.
[[nodiscard]] bool is_kineto_export(const std::string& path);

/// Returns the report of a recording, with what its plan and profile add if it has them. `name` is in the title.
[[nodiscard]] TraceReport report_of_recording(const profiler::Recording& recording, const std::string& name);

/// Renders the report of a trace that mptune did not record: without plan and stages where they are not known.
[[nodiscard]] std::string render_foreign_trace(const TraceReport& report, const TextStyle& style);
/// Adds the same as keys of `json`.
void put_foreign_trace(planner::Json& json, const TraceReport& report);

/// Returns the exit code of a result that rests on this trace: inconclusive, with a warning, where its quality forbids a verdict.
[[nodiscard]] int verdict_code(const Session& session, const TraceReport& report);

}  // namespace mptune::reports
