#include "mptune/reports/cli/recordings.h"

#include "mptune/planner/search/search.h"
#include "mptune/profiler/formats/any_trace.h"
#include "mptune/profiler/trace/error.h"

namespace mptune {

Recording read_any_recording(const std::string& path) {
  Recording recording;
  if (trace_format(path) == TraceFormat::sqlite) {
    recording = read_recording(path);
  } else {
    recording.trace = read_any_trace(path);
  }
  if (!recording.trace) {
    throw Error("the file holds no trace", path, "give a file that mptune profile wrote, or a trace of Nsight Systems or Kineto");
  }
  return recording;
}

TraceReport report_of_recording(const Recording& recording, const std::string& name) {
  if (recording.plan_json.empty()) {
    return build_trace_report(*recording.trace, {}, name);
  }
  const Plan plan = plan_from_json(recording.plan_json, name);
  TraceReport report = build_trace_report(*recording.trace, {}, name + ", " + describe(plan));
  add_plan(report, plan, recording.profile ? &*recording.profile : nullptr);
  return report;
}

int verdict_code(const Session& session, const TraceReport& report) {
  if (report.doubt.empty()) {
    return static_cast<int>(ExitCode::done);
  }
  session.warn("no verdict rests on this trace: " + report.doubt + "; record again, fewer steps at a time");
  return static_cast<int>(ExitCode::inconclusive);
}

}  // namespace mptune
