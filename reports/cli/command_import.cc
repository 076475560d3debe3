#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "mptune/reports/cli/commands.h"
#include "mptune/reports/cli/recordings.h"
#include "mptune/reports/render/report_text.h"
#include "mptune/reports/render/units.h"

namespace mptune {
namespace {

std::string import_text(const TraceReport& report, const TextStyle& style) {
  std::string text = render_trace_report(report, style) + "\n" + render_details(report, style);
  text += fmt::format("step {}, 95 % {}, {} samples\n", format_seconds(report.step_s), format_interval_seconds(interval95(report.steps_s)),
                      report.steps_s.size());
  if (report.has_stages) {
    text += fmt::format("ideal step {}: every operation as long as the mean of its kind\n", format_seconds(report.ideal_step_s));
  }
  return text;
}

int run_import(const std::string& path, const Session& session) {
  session.say("reading " + path);
  const TraceReport report = report_of_recording(read_any_recording(path), std::filesystem::path(path).filename().string());
  Json json = result_of("import");
  json["file"] = path;
  put_step(json, report.steps_s);
  json["ideal_step_s"] = report.ideal_step_s;
  put_trace(json, report);
  session.result(import_text(report, session.style), json);
  return verdict_code(session, report);
}

}  // namespace

void add_import_command(CLI::App& program, CommandBody& chosen) {
  auto path = std::make_shared<std::string>();
  CLI::App* app = program.add_subcommand("import", "Says why devices idle in a trace that another program recorded");
  app->add_option("FILE", *path, "SQLite export of Nsight Systems, Kineto JSON of PyTorch's profiler or pipeline timeline, .gz or not")
      ->required();
  app->footer(
      "Example:\n  mptune import report.sqlite        # nsys export --type sqlite report.nsys-rep\n"
      "  mptune import worker0.pt.trace.json.gz");
  app->callback([path, &chosen] { chosen = [path](const Session& session) { return run_import(*path, session); }; });
}

}  // namespace mptune
