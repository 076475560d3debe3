#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "profiler/base/error.h"
#include "reports/cli/commands.h"
#include "reports/cli/option_values.h"
#include "reports/cli/recordings.h"
#include "reports/comparison.h"
#include "reports/render/compare_text.h"
#include "reports/study_report.h"

namespace mptune::reports {
namespace {

struct CompareCommand {
  std::string a;
  std::string b;
};

enum class Compared { trace, plan, study };

Compared kind_of(const std::string& path) {
  if (std::filesystem::is_directory(path)) return Compared::study;
  return is_plan_file(path) ? Compared::plan : Compared::trace;
}

const char* name_of(Compared kind) {
  return kind == Compared::study ? "a study" : kind == Compared::plan ? "a plan" : "a trace";
}

TraceReport trace_report(const profiler::Recording& recording, const std::string& path) {
  return report_of_recording(recording, std::filesystem::path(path).filename().string());
}

Comparison compare_recordings(const std::string& path_a, const std::string& path_b) {
  const profiler::Recording a = read_any_recording(path_a), b = read_any_recording(path_b);
  Comparison comparison = compare_traces(trace_report(a, path_a), trace_report(b, path_b));
  if (!a.plan_json.empty() && !b.plan_json.empty())
    add_plan_changes(comparison, plan_from_json(a.plan_json, path_a), plan_from_json(b.plan_json, path_b));
  return comparison;
}

Comparison compared(const std::string& a, const std::string& b) {
  const Compared kind = kind_of(a);
  if (const Compared other = kind_of(b); other != kind && std::filesystem::exists(a) && std::filesystem::exists(b)) {
    throw Error(std::string(name_of(kind)) + " can't be compared with " + name_of(other), a + " and " + b,
                "give two traces, two plan files or two study folders");
  }
  switch (kind) {
    case Compared::study:
      return compare_studies(read_study_report(a), read_study_report(b));
    case Compared::plan:
      return compare_plan_files(load_plan_file(a), load_plan_file(b));
    case Compared::trace:
      break;
  }
  return compare_recordings(a, b);
}

int exit_code_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::fast:
    case Verdict::same:
      return static_cast<int>(ExitCode::done);
    case Verdict::slow:
      return static_cast<int>(ExitCode::differs);
    default:
      return static_cast<int>(ExitCode::inconclusive);
  }
}

int run_compare(const CompareCommand& command, const Session& session) {
  session.say("comparing " + command.a + " with " + command.b);
  Comparison comparison = compared(command.a, command.b);
  comparison.a.name = command.a;
  comparison.b.name = command.b;
  planner::Json json = result_of("compare");
  json.update(comparison_json(comparison));
  session.result(render_compared(comparison, session.style), json);
  return exit_code_of(comparison.verdict);
}

}  // namespace

void add_compare_command(CLI::App& program, CommandBody& chosen) {
  auto command = std::make_shared<CompareCommand>();
  CLI::App* app = program.add_subcommand("compare", "Says what changed from one trace, plan or study to another, and whether it is slower");
  offer_values(*app->add_option("A", command->a, "trace of any format that import reads, plan file, or folder of a study")->required(),
               {kFileValue});
  offer_values(*app->add_option("B", command->b, "another of the same kind")->required(), {kFileValue});
  app->footer("Example:\n  mptune compare before.sqlite after.sqlite");
  app->callback([command, &chosen] { chosen = [command](const Session& session) { return run_compare(*command, session); }; });
}

}  // namespace mptune::reports
