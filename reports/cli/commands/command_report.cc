#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <memory>
#include <optional>

#include "planner/plan/file/plan_file.h"
#include "profiler/base/error.h"
#include "profiler/base/printable.h"
#include "reports/cli/commands/commands.h"
#include "reports/cli/commands/recordings.h"
#include "reports/cli/options/options.h"
#include "reports/cli/program/option_values.h"
#include "reports/html/html.h"
#include "reports/render/markdown.h"
#include "reports/render/plan_file_text.h"
#include "reports/render/report_text.h"
#include "reports/values/study_report.h"

namespace mptune::reports {
namespace {

struct ReportCommand {
  std::string source;
  bool text = false;
  bool markdown = false;
  OutputOptions output;
};

enum class Format { text, markdown, html };

/// What a source was found to be.
struct Reported {
  std::string name;  ///< name of the file
  std::optional<StudyReport> study;
  std::optional<TraceReport> trace;
  std::optional<PlanFile> plan;
};

/// Endings of formats that a report is not written in; any other ending of a name is the user's choice.
constexpr std::array kOtherFormats = {".pdf", ".ps",  ".doc", ".docx", ".odt",  ".rtf",  ".tex", ".png",
                                      ".jpg", ".svg", ".csv", ".xlsx", ".json", ".yaml", ".xml"};

std::string ending_of(const std::string& path) {
  std::string ending = std::filesystem::path(path).extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending;
}

bool names_page(const std::string& path) {
  const std::string ending = ending_of(path);
  return ending == ".html" || ending == ".htm";
}

void refuse_other_formats(const std::string& path) {
  const std::string ending = ending_of(path);
  if (std::ranges::find(kOtherFormats, ending) == kOtherFormats.end()) return;
  throw Error("a report is not written as " + ending, path,
              ending == ".json" ? "use --json, or name a file NAME.html, NAME.md or NAME.txt"
                                : "use -o NAME.html, which a browser prints, or a file NAME.md or NAME.txt");
}

Format format_of(const ReportCommand& command) {
  if (command.text && command.markdown)
    throw Error("--text and --markdown exclude each other", "--markdown", "give one of --text and --markdown, or neither");
  if (names_page(command.output.path)) {
    if (command.text || command.markdown) {
      throw Error(std::string("the name is that of a page, and ") + (command.text ? "--text" : "--markdown") + " is given",
                  command.output.path, "leave the option out, or name another file with -o");
    }
    return Format::html;
  }
  refuse_other_formats(command.output.path);
  return command.markdown ? Format::markdown : Format::text;
}

Reported read_source(const std::string& source) {
  Reported reported{.name = std::filesystem::path(source).filename().string(), .study = {}, .trace = {}, .plan = {}};
  if (is_study_folder(source))
    reported.study = read_study_report(source);
  else if (is_plan_file(source))
    reported.plan = load_plan_file(source);
  else
    reported.trace = report_of_recording(read_any_recording(source), reported.name);
  return reported;
}

std::string text_document(const Reported& reported, const TextStyle& style, Listing failed) {
  if (reported.study) return render_study_report(*reported.study, style, failed);
  if (reported.plan) return render_plan_file(*reported.plan, style);
  return render_trace_report(*reported.trace, style) + "\n" + render_details(*reported.trace, style);
}

std::string markdown_document(const Reported& reported, Listing failed) {
  if (reported.study) return render_study_markdown(*reported.study, failed);
  if (reported.plan) return render_plan_markdown(*reported.plan, reported.name);
  return render_trace_markdown(*reported.trace);
}

std::string page_of(const Reported& reported) {
  if (reported.study) return render_study_html(*reported.study);
  if (reported.plan) return render_plan_html(*reported.plan, reported.name);
  return render_trace_html(*reported.trace);
}

/// Returns what `tune` or `import` prints with --json, or the plan file.
planner::Json data_of(const Reported& reported, const std::string& source) {
  if (reported.plan) return planner::Json::parse(to_json(*reported.plan));
  planner::Json json = result_of(reported.study ? "tune" : "import");
  if (reported.study) {
    json.update(study_json(*reported.study, reported.study->layers));
  } else {
    json["file"] = source;
    put_foreign_trace(json, *reported.trace);
  }
  return json;
}

int run_report(const ReportCommand& command, const Session& session) {
  const Format format = format_of(command);
  const std::string& path = command.output.path;
  if (format == Format::html) check_output(path, kHtmlMagic, command.output.force, {command.source});
  const Reported reported = read_source(command.source);
  // A file gets a fixed width and no colours.
  const TextStyle style = path.empty() ? session.style : TextStyle{.width = 120, .unicode = session.style.unicode, .color = false};
  const Listing failed = session.options.verbose ? Listing::all : Listing::few;
  std::string text = format == Format::html       ? page_of(reported)
                     : format == Format::markdown ? markdown_document(reported, failed)
                                                  : text_document(reported, style, failed);
  planner::Json json = result_of("report");
  json["files"] = planner::Json::array();
  json["lossy"] = planner::Json::array();
  json["kind"] = reported.study ? "study" : reported.plan ? "plan" : "trace";
  json["data"] = data_of(reported, command.source);
  if (!path.empty()) {
    // For a page, the file at the path was checked above; other formats have no first bytes of their own.
    write_text_file(path, format == Format::html ? text : finished(style, text), command.output.force || format == Format::html,
                    {command.source});
    json["files"].push_back(path);
    text = printable(path) + "\n";
  } else if (command.text || command.markdown) {
    json[command.markdown ? "markdown" : "text"] = finished(style, text);
  }
  session.result(text, json);
  return 0;
}

}  // namespace

void add_report_command(CLI::App& program, CommandBody& chosen) {
  auto command = std::make_shared<ReportCommand>();
  CLI::App* app = program.add_subcommand("report", "Shows a study, a trace or a plan: as text, Markdown or an HTML page");
  offer_values(*app->add_option("STUDY_OR_TRACE_OR_PLAN", command->source, "folder made by tune, trace file or plan file")->required(),
               {kFileValue});
  app->add_flag("--text", command->text, "as text, the default")->group(kOutputGroup);
  app->add_flag("--markdown", command->markdown, "as a Markdown document with GitHub's tables")->group(kOutputGroup);
  add_output_options(*app, command->output,
                     "write the report to this file instead of the terminal; NAME.html is one page that works offline");
  app->footer("Example:\n  mptune report resnet50.study\n  mptune report resnet50.study -o resnet50.html");
  app->callback([command, &chosen] { chosen = [command](const Session& session) { return run_report(*command, session); }; });
}

}  // namespace mptune::reports
