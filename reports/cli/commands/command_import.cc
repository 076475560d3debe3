#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "profiler/base/error.h"
#include "profiler/base/printable.h"
#include "profiler/base/text.h"
#include "profiler/trace/formats/action_times.h"
#include "profiler/trace/formats/any_trace.h"
#include "profiler/trace/formats/kineto.h"
#include "profiler/trace/formats/kineto_export.h"
#include "profiler/trace/ranks/device_meetings.h"
#include "profiler/trace/ranks/merge_ranks.h"
#include "reports/cli/commands/commands.h"
#include "reports/cli/commands/recordings.h"
#include "reports/cli/options/options.h"
#include "reports/cli/program/option_values.h"
#include "reports/render/ranks_text.h"
#include "reports/values/quality_text.h"

namespace mptune::reports {
namespace {

struct ImportCommand {
  std::vector<std::string> paths;
  OutputOptions output;
};

struct Imported {
  profiler::Recording recording;
  std::string name;
  std::optional<profiler::MergedRanks> ranks{};  ///< merged ranks, without the trace
  std::vector<int> missing{};                    ///< ranks of a pipeline without times
};

Imported import_export(const std::vector<std::string>& paths, const std::string& name, const Session& session) {
  profiler::KinetoExport exported = profiler::read_kineto_export(paths);
  if (!exported.missing.empty()) {
    session.warn(fmt::format("no file of device{} {}: what it did and sent is missing; give the files of all {} devices",
                             exported.missing.size() == 1 ? "" : "s", list_of_numbers(exported.missing),
                             exported.missing.size() + exported.trace.devices.size()));
  }
  Imported imported{.recording = {}, .name = name};
  imported.recording.trace = std::move(exported.trace);
  return imported;
}

Imported import_actions(const std::vector<std::string>& paths, const std::string& name, const Session& session) {
  profiler::ActionTimeline timeline = profiler::read_action_timeline(paths);
  if (!timeline.missing.empty())
    session.warn(fmt::format("no file of rank{} {}: what {} neighbours waited for is not known; give the files of all ranks",
                             timeline.missing.size() == 1 ? "" : "s", list_of_numbers(timeline.missing),
                             timeline.missing.size() == 1 ? "its" : "their"));
  Imported imported{.recording = {}, .name = name};
  imported.missing = timeline.missing;
  imported.recording.trace = std::move(timeline.trace);
  return imported;
}

Imported import_ranks(std::vector<profiler::RankRecording> recordings) {
  Imported imported{.recording = {}, .name = {}, .ranks = profiler::merge_ranks(std::move(recordings))};
  imported.name = std::to_string(imported.ranks->ranks.size()) + " ranks";
  imported.recording.trace = std::move(imported.ranks->trace);
  return imported;
}

Imported import_files(const std::vector<std::string>& paths, const Session& session) {
  const bool one = paths.size() == 1;
  session.say("reading " + (one ? paths.front() : std::to_string(paths.size()) + " files"));
  const std::string name = one ? std::filesystem::path(paths.front()).filename().string() : std::to_string(paths.size()) + " files";
  if (profiler::holds_action_times(paths.front())) return import_actions(paths, name, session);
  if (is_kineto_export(paths.front())) return import_export(paths, name, session);
  if (one && profiler::trace_format(paths.front()) == profiler::TraceFormat::kineto) {
    std::vector<profiler::RankRecording> recordings = profiler::read_kineto_ranks(paths.front());
    if (recordings.size() > 1) return import_ranks(std::move(recordings));
    Imported imported{.recording = {}, .name = name};
    imported.recording.trace = std::move(recordings.front().trace);
    profiler::join_devices(*imported.recording.trace);
    return imported;
  }
  if (one) return {.recording = read_any_recording(paths.front()), .name = name};
  return import_ranks(read_rank_recordings(paths));
}

/// Writes the trace file. A trace file has no place for records with times that can't be right; without them it would get a verdict.
void write_imported(const profiler::Recording& recording, const ImportCommand& command) {
  if (const auto& wrong = recording.trace->implausible; !wrong.empty())
    throw Error("no trace file is written: the trace has a record with times that can't be right: " + text_of(wrong.front()),
                command.paths.front(), "correct or delete it, or record again");
  profiler::write_recording(recording, command.output.path, command.output.force);
}

int run_import(const ImportCommand& command, const Session& session) {
  const std::string& output = command.output.path;
  if (!output.empty()) check_output(output, kSqliteMagic, command.output.force, command.paths);
  const Imported imported = import_files(command.paths, session);
  if (!output.empty()) write_imported(imported.recording, command);
  const TraceReport report = report_of_recording(imported.recording, imported.name);
  planner::Json json = result_of("import");
  if (command.paths.size() == 1)
    json["file"] = command.paths.front();
  else
    json["files"] = command.paths;
  put_foreign_trace(json, report);
  std::string text;
  if (imported.ranks) {
    put_ranks(json, *imported.ranks);
    text += render_ranks(*imported.ranks, session.style);
  }
  if (!imported.missing.empty()) json["missing_ranks"] = imported.missing;
  text += render_foreign_trace(report, session.style);
  if (!output.empty()) {
    json["trace"] = output;
    text += "trace " + printable(output) + "\n";
  }
  session.result(text, json);
  return verdict_code(session, report);
}

}  // namespace

void add_import_command(CLI::App& program, CommandBody& chosen) {
  auto command = std::make_shared<ImportCommand>();
  CLI::App* app = program.add_subcommand("import", "Says why devices idle in a trace that another program recorded");
  CLI::Option* file =
      app->add_option(
             "FILE", command->paths,
             "SQLite export of Nsight Systems, Kineto JSON of PyTorch's profiler, pipeline timeline, or start and end of its actions "
             "(a folder or files of Primus's --dump_pp_data, or a table), .gz or not; several files: one of each rank of a job, or "
             "of each device of an export of mptune")
          ->required();
  offer_values(*file, {kFileValue});
  add_output_options(*app, command->output,
                     "write what was read as one trace file, which report, compare and export read; default: nothing is written");
  app->footer(
      "A window of a longer recording is enough. A time that can't be right is named, and there is no verdict.\n"
      "Of several ranks, what they sent each other and did together sets their clocks and shows who waited for whom.\n"
      "A stall is a forward or backward that takes longer, or starts later, than is usual for its device, stage and kind by 6 robust "
      "standard deviations and 0.5 % of the step; it is priced by a replay of the step without it.\n\n"
      "Example:\n  mptune import report.sqlite        # nsys export --type sqlite report.nsys-rep\n"
      "  mptune import worker0.pt.trace.json.gz\n"
      "  mptune import rank0.json.gz rank1.json.gz rank2.json.gz -o job.sqlite\n"
      "  mptune import output/pp_data       # of Primus");
  app->callback([command, &chosen] { chosen = [command](const Session& session) { return run_import(*command, session); }; });
}

}  // namespace mptune::reports
