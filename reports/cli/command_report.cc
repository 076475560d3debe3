#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "profiler/base/error.h"
#include "profiler/base/printable.h"
#include "profiler/store/store.h"
#include "reports/cli/commands.h"
#include "reports/cli/option_values.h"
#include "reports/cli/options.h"
#include "reports/cli/recordings.h"
#include "reports/render/markdown.h"
#include "reports/render/report_text.h"
#include "reports/study_report.h"

namespace mptune::reports {
namespace {

struct ReportCommand {
  std::string source;
  bool text = false;
  bool markdown = false;
  OutputOptions output;
};

std::string document(const ReportCommand& command, const TextStyle& style, Listing failed) {
  if (std::filesystem::is_directory(command.source)) {
    const StudyReport report = read_study_report(command.source);
    return command.markdown ? render_study_markdown(report, failed) : render_study_report(report, style, failed);
  }
  const std::string name = std::filesystem::path(command.source).filename().string();
  const TraceReport report = report_of_recording(read_any_recording(command.source), name);
  return command.markdown ? render_trace_markdown(report) : render_trace_report(report, style) + "\n" + render_details(report, style);
}

int run_report(const ReportCommand& command, const Session& session) {
  if (command.text == command.markdown) {
    throw Error(command.text ? "two formats of a report are given" : "no format of the report is given", "report",
                "give --text or --markdown");
  }
  // A file gets a fixed width and no colours.
  const TextStyle style =
      command.output.path.empty() ? session.style : TextStyle{.width = 120, .unicode = session.style.unicode, .color = false};
  const std::string text = document(command, style, session.options.verbose ? Listing::all : Listing::few);
  planner::Json json = result_of("report");
  json["files"] = planner::Json::array();
  json["lossy"] = planner::Json::array();
  if (command.output.path.empty()) {
    json[command.markdown ? "markdown" : "text"] = finished(style, text);
  } else {
    write_text_file(command.output.path, finished(style, text), command.output.force, {command.source});
    json["files"].push_back(command.output.path);
  }
  session.result(command.output.path.empty() ? text : printable(command.output.path) + "\n", json);
  return 0;
}

}  // namespace

void add_report_command(CLI::App& program, CommandBody& chosen) {
  auto command = std::make_shared<ReportCommand>();
  CLI::App* app = program.add_subcommand("report", "Shows a study or a trace again");
  offer_values(*app->add_option("STUDY_OR_TRACE", command->source, "folder made by tune, or trace file")->required(), {kFileValue});
  app->add_flag("--text", command->text, "as text")->group(kOutputGroup);
  app->add_flag("--markdown", command->markdown, "as a Markdown document with GitHub's tables")->group(kOutputGroup);
  add_output_options(*app, command->output, "write the report to this file instead of the terminal");
  app->footer("Example:\n  mptune report resnet50.study --text");
  app->callback([command, &chosen] { chosen = [command](const Session& session) { return run_report(*command, session); }; });
}

}  // namespace mptune::reports
