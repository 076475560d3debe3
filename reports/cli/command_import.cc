#include <CLI/CLI.hpp>
#include <filesystem>

#include "reports/cli/commands.h"
#include "reports/cli/option_values.h"
#include "reports/cli/recordings.h"

namespace mptune::reports {
namespace {

int run_import(const std::string& path, const Session& session) {
  session.say("reading " + path);
  const TraceReport report = report_of_recording(read_any_recording(path), std::filesystem::path(path).filename().string());
  planner::Json json = result_of("import");
  json["file"] = path;
  put_foreign_trace(json, report);
  session.result(render_foreign_trace(report, session.style), json);
  return verdict_code(session, report);
}

}  // namespace

void add_import_command(CLI::App& program, CommandBody& chosen) {
  auto path = std::make_shared<std::string>();
  CLI::App* app = program.add_subcommand("import", "Says why devices idle in a trace that another program recorded");
  CLI::Option* file =
      app->add_option("FILE", *path, "SQLite export of Nsight Systems, Kineto JSON of PyTorch's profiler or pipeline timeline, .gz or not")
          ->required();
  offer_values(*file, {kFileValue});
  app->footer(
      "A window of a longer recording is enough. A time that can't be right is named, and there is no verdict.\n\n"
      "Example:\n  mptune import report.sqlite        # nsys export --type sqlite report.nsys-rep\n"
      "  mptune import worker0.pt.trace.json.gz");
  app->callback([path, &chosen] { chosen = [path](const Session& session) { return run_import(*path, session); }; });
}

}  // namespace mptune::reports
