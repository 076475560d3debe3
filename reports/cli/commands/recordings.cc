#include "reports/cli/commands/recordings.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "planner/cost/pool_costs.h"
#include "planner/plan/plan_words.h"
#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "profiler/base/units.h"
#include "profiler/trace/formats/action_times.h"
#include "profiler/trace/formats/any_trace.h"
#include "profiler/trace/formats/kineto.h"
#include "profiler/trace/formats/kineto_export.h"
#include "profiler/trace/ranks/device_meetings.h"
#include "reports/render/report_text.h"
#include "reports/render/units.h"
#include "reports/values/quality_text.h"

namespace mptune::reports {

namespace {

Trace read_json_trace(const std::string& path, profiler::TraceFormat format) {
  const auto part = format == profiler::TraceFormat::kineto ? profiler::kineto_part(path) : std::nullopt;
  if (part && part->devices > 1)
    throw Error(fmt::format("it holds device {} of {} of a trace", part->device, part->devices), path,
                "join the files of all devices: mptune import FILES -o trace.sqlite");
  return profiler::read_any_trace(path);
}

// Returns true for a trace that was joined from several ranks, or recorded by several.
bool holds_ranks(const Trace& trace) {
  return std::ranges::any_of(trace.devices, [](const TraceDevice& device) { return names_rank(device.name); });
}

bool holds_work(const Trace& trace) {
  return std::ranges::any_of(trace.events,
                             [](const Event& event) { return event.duration > Nanoseconds{0} && is_device_work(event.kind); });
}

profiler::Recording read_as_recorded(const std::string& path) {
  profiler::Recording recording;
  if (const profiler::TraceFormat format = profiler::trace_format(path); format == profiler::TraceFormat::sqlite)
    recording = profiler::read_recording(path);
  else
    recording.trace = read_json_trace(path, format);
  if (!recording.trace)
    throw Error("the file holds no trace", path, "give a file that profile wrote, or a trace of Nsight Systems or Kineto");
  if (!holds_work(*recording.trace) && !recording.trace->implausible.empty())
    throw Error("all its work has times that can't be right, first: " + text_of(recording.trace->implausible.front()), path,
                "give a trace as its profiler wrote it");
  if (!holds_work(*recording.trace) && recording.trace->quality.zero_stamped > 0)
    throw Error("its work has no times: the profiler stamped them 0", path, "record again, fewer steps at a time");
  if (!holds_work(*recording.trace))
    throw Error("the trace holds no work of a device", path, "record kernels or copies too, not calls, waits or ranges alone");
  return recording;
}

}  // namespace

bool is_plan_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string begin(4096, '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return begin.starts_with("{") && begin.find("\"mptune.plan") != std::string::npos;
}

bool is_study_folder(const std::string& path) {
  return std::filesystem::is_directory(path) && !profiler::holds_action_times(path);
}

profiler::Recording read_any_recording(const std::string& path) {
  profiler::Recording recording = read_as_recorded(path);
  if (recording.plan_json.empty()) profiler::join_devices(*recording.trace);
  return recording;
}

std::vector<profiler::RankRecording> read_rank_recordings(const std::vector<std::string>& paths) {
  std::vector<profiler::RankRecording> recordings;
  for (const std::string& path : paths) {
    const profiler::TraceFormat format = profiler::trace_format(path);
    if (format == profiler::TraceFormat::pipeline_timeline) throw Error("a pipeline timeline holds all ranks", path, "give it alone");
    if (format == profiler::TraceFormat::action_times)
      throw Error("it holds times of a pipeline's actions, and other files do not", path, "give the files of one format alone");
    if (format == profiler::TraceFormat::kineto) {
      if (is_kineto_export(path))
        throw Error("it was written by mptune export, and other files were not", path, "give the files of one export alone");
      for (profiler::RankRecording& one : profiler::read_kineto_ranks(path)) recordings.push_back(std::move(one));
      continue;
    }
    profiler::Recording recording = read_as_recorded(path);
    if (!recording.plan_json.empty() || holds_ranks(*recording.trace))
      throw Error("a recording of mptune holds all devices", path, "give it alone");
    recordings.push_back({.file = path, .trace = std::move(*recording.trace), .communications = {}});
  }
  return recordings;
}

bool is_kineto_export(const std::string& path) {
  try {
    return profiler::trace_format(path) == profiler::TraceFormat::kineto && profiler::kineto_part(path).has_value();
  } catch (const Error&) {
    return false;
  }
}

TraceReport report_of_recording(const profiler::Recording& recording, const std::string& name) {
  if (recording.plan_json.empty()) return build_trace_report(*recording.trace, {}, name);
  const Plan plan = plan_from_json(recording.plan_json, name);
  validate(plan, recording.profile ? static_cast<int>(recording.profile->layers.size()) : -1, name);
  TraceReport report = build_trace_report(*recording.trace, {}, name + ", " + describe(plan));
  if (!recording.profile) {
    add_plan(report, plan, nullptr);
    return report;
  }
  const Profile priced = planner::with_pool_devices(*recording.profile);
  add_plan(report, plan, &priced);
  return report;
}

std::string render_foreign_trace(const TraceReport& report, const TextStyle& style) {
  std::string text = render_trace_report(report, style) + "\n" + render_details(report, style);
  text += "step " + format_measured(report.step_s, interval95(report.steps_s), report.steps_s.size()) + "\n";
  if (report.has_stages) {
    text += hanging("",
                    fmt::format("ideal step {}: every computation as long as the mean of its kind, communication as the median",
                                format_seconds(report.ideal_step_s)),
                    style);
  }
  return text;
}

void put_foreign_trace(planner::Json& json, const TraceReport& report) {
  put_step(json, report.steps_s);
  json["ideal_step_s"] = report.ideal_step_s;
  put_trace(json, report);
}

int verdict_code(const Session& session, const TraceReport& report) {
  if (!report.objection) return static_cast<int>(ExitCode::done);
  if (report.objection->record)
    session.warn("no verdict, because a record has times that can't be right: " + text_of(*report.objection) +
                 (report.objection->record->fault == ImplausibleTime::Fault::overrun ? "; here it ends there" : "; it is left out here") +
                 ". Correct or delete it in the file, or record again");
  else
    session.warn("this trace is too incomplete for a verdict: " + text_of(*report.objection) + "; " + remedy_of(*report.objection));
  return static_cast<int>(ExitCode::inconclusive);
}

}  // namespace mptune::reports
