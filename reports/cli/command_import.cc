#include <CLI/CLI.hpp>
#include <filesystem>

#include "profiler/ranks/merge_ranks.h"
#include "reports/cli/commands.h"
#include "reports/cli/option_values.h"
#include "reports/cli/recordings.h"
#include "reports/render/ranks_text.h"

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

int import_ranks(const std::vector<std::string>& paths, const Session& session) {
  session.say("reading " + std::to_string(paths.size()) + " files");
  profiler::MergedRanks merged = profiler::merge_ranks(read_rank_recordings(paths));
  profiler::Recording recording;
  recording.trace = std::move(merged.trace);
  const TraceReport report = report_of_recording(recording, std::to_string(merged.ranks.size()) + " ranks");
  planner::Json json = result_of("import");
  json["files"] = paths;
  put_foreign_trace(json, report);
  put_ranks(json, merged);
  session.result(render_ranks(merged, session.style) + render_foreign_trace(report, session.style), json);
  return verdict_code(session, report);
}

}  // namespace

void add_import_command(CLI::App& program, CommandBody& chosen) {
  auto paths = std::make_shared<std::vector<std::string>>();
  CLI::App* app = program.add_subcommand("import", "Says why devices idle in a trace that another program recorded");
  CLI::Option* file =
      app->add_option("FILE", *paths,
                      "SQLite export of Nsight Systems, Kineto JSON of PyTorch's profiler or pipeline timeline, .gz or not; several files: "
                      "one of each rank of a job")
          ->required();
  offer_values(*file, {kFileValue});
  app->footer(
      "A window of a longer recording is enough. A time that can't be right is named, and there is no verdict.\n"
      "Of several ranks, what they sent each other and did together sets their clocks and shows who waited for whom.\n\n"
      "Example:\n  mptune import report.sqlite        # nsys export --type sqlite report.nsys-rep\n"
      "  mptune import worker0.pt.trace.json.gz\n"
      "  mptune import rank0.json.gz rank1.json.gz rank2.json.gz");
  app->callback([paths, &chosen] {
    chosen = [paths](const Session& session) {
      return paths->size() == 1 ? run_import(paths->front(), session) : import_ranks(*paths, session);
    };
  });
}

}  // namespace mptune::reports
