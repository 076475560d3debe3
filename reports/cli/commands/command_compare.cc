#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "profiler/base/error.h"
#include "profiler/base/new_file.h"
#include "profiler/base/text.h"
#include "reports/cli/commands/commands.h"
#include "reports/cli/commands/recordings.h"
#include "reports/cli/options/options.h"
#include "reports/cli/program/option_values.h"
#include "reports/render/compare_ci.h"
#include "reports/render/compare_text.h"
#include "reports/values/comparison.h"
#include "reports/values/study_report.h"

namespace mptune::reports {
namespace {

constexpr double kMostThreshold = 1000;  // [%]

struct CompareCommand {
  std::string first;
  std::vector<std::string> further;  ///< B, or with `against` more recordings of A
  std::vector<std::string> against;
  std::string threshold;
  std::string fail_on = "inconclusive";
  bool markdown = false;
  bool github = false;
  std::string junit;
  bool force = false;
};

/// What --github writes into the current folder.
constexpr const char* kCommentFile = "comparison.md";
constexpr const char* kBenchmarkFile = "benchmark.json";

/// What is compared, with a path each; several only for recordings.
struct Sides {
  std::vector<std::string> a;
  std::vector<std::string> b;
};

enum class Compared { trace, plan, study };

Compared kind_of(const std::string& path) {
  if (is_study_folder(path)) return Compared::study;
  return is_plan_file(path) ? Compared::plan : Compared::trace;
}

const char* name_of(Compared kind) {
  return kind == Compared::study ? "a study" : kind == Compared::plan ? "a plan" : "a trace";
}

ComparedTrace compared_trace(const std::string& path) {
  const profiler::Recording recording = read_any_recording(path);
  ComparedTrace trace;
  trace.name = path;
  trace.report = report_of_recording(recording, std::filesystem::path(path).filename().string());
  trace.work.devices = recording.trace->devices;
  trace.work.machine = machine_from_json(recording.environment);
  if (recording.profile) {
    trace.work.model = recording.profile->model;
    trace.work.fingerprint = recording.profile->fingerprint;
  }
  if (!recording.plan_json.empty()) {
    trace.plan = plan_from_json(recording.plan_json, path);
    trace.work.batch = trace.plan->global_batch_size();
  }
  return trace;
}

std::vector<ComparedTrace> compared_traces(const std::vector<std::string>& paths) {
  std::vector<ComparedTrace> traces;
  for (const std::string& path : paths) traces.push_back(compared_trace(path));
  return traces;
}

Sides sides_of(const CompareCommand& command) {
  Sides sides{{command.first}, command.against};
  if (sides.b.empty()) {
    if (command.further.empty())
      throw Error("B is required", "compare", "give it behind A, or behind --with where a side has several recordings");
    if (command.further.size() > 1) {
      throw Error(std::to_string(1 + command.further.size()) + " files are given, without a word on which are A's", "compare",
                  "give A's recordings, then --with, then B's");
    }
    sides.b = command.further;
  } else {
    sides.a.insert(sides.a.end(), command.further.begin(), command.further.end());
  }
  return sides;
}

/// Returns the kind of all paths. Throws Error where kinds differ, or where a side has several paths that are not recordings.
Compared kind_of(const Sides& sides) {
  std::vector<std::string> paths = sides.a;
  paths.insert(paths.end(), sides.b.begin(), sides.b.end());
  const Compared kind = kind_of(paths.front());
  for (const std::string& path : paths) {
    const Compared other = kind_of(path);
    if (other == kind || !std::filesystem::exists(paths.front()) || !std::filesystem::exists(path)) continue;
    throw Error(std::string(name_of(kind)) + " can't be compared with " + name_of(other), paths.front() + " and " + path,
                "give traces, two plan files or two study folders");
  }
  if (kind != Compared::trace && paths.size() > 2)
    throw Error("a side may have several recordings, but not several plans or studies", paths.front(),
                "give two plan files or two study folders");
  return kind;
}

/// Reads both sides, A first, so that its mistakes are told first.
template <class Read>
auto both(const Sides& sides, Read read) {
  auto a = read(sides.a);
  return std::pair(std::move(a), read(sides.b));
}

Comparison compared(const Sides& sides, double band) {
  Comparison comparison;
  switch (kind_of(sides)) {
    case Compared::study: {
      const auto [a, b] = both(sides, [](const auto& paths) { return read_study_report(paths.front()); });
      comparison = compare_studies(a, b, band);
      break;
    }
    case Compared::plan: {
      const auto [a, b] = both(sides, [](const auto& paths) { return load_plan_file(paths.front()); });
      comparison = compare_plan_files(a, b, band);
      break;
    }
    case Compared::trace: {
      const auto [a, b] = both(sides, compared_traces);
      return compare_traces(a, b, band);
    }
  }
  comparison.a.names = sides.a;
  comparison.b.names = sides.b;
  return comparison;
}

int exit_code_of(Verdict verdict, bool fails_if_inconclusive) {
  switch (verdict) {
    case Verdict::fast:
    case Verdict::same:
      return static_cast<int>(ExitCode::done);
    case Verdict::slow:
      return static_cast<int>(ExitCode::differs);
    default:
      return static_cast<int>(fails_if_inconclusive ? ExitCode::inconclusive : ExitCode::done);
  }
}

bool fails_if_inconclusive(const CompareCommand& command) {
  if (command.fail_on == "inconclusive" || command.fail_on == "slower") return command.fail_on == "inconclusive";
  throw Error("can't fail on '" + command.fail_on + "'", "--fail-on", "use slower or inconclusive");
}

/// Refuses early to replace a file that this command did not write.
void check_files(const CompareCommand& command, const Sides& sides) {
  std::vector<std::string> inputs = sides.a;
  inputs.insert(inputs.end(), sides.b.begin(), sides.b.end());
  const auto check = [&](const std::string& path, const char* begins) {
    if (!command.force && is_foreign(path, begins))
      throw Error("the file exists and was not written by mptune compare", path, "move it away, or add --force");
    check_output(path, begins, true, inputs);
  };
  if (!command.junit.empty()) check(command.junit, kJunitBegin);
  if (!command.github) return;
  for (const char* name : {kCommentFile, kBenchmarkFile})
    if (!command.junit.empty() &&
        std::filesystem::absolute(command.junit).lexically_normal() == std::filesystem::absolute(name).lexically_normal())
      throw Error("--github writes another file of this name", command.junit, "give --junit another name");
  check(kCommentFile, kComparisonComment);
  check(kBenchmarkFile, kBenchmarksBegin);
}

void write_new(const std::string& path, const std::string& text) {
  NewFile file(path);
  file << text;
  file.commit();
}

/// Appends to the summary of the job, whose file GitHub names. Other commands of the job append to it, too.
void append_to_summary(const std::string& text) {
  const char* const path = std::getenv("GITHUB_STEP_SUMMARY");
  if (path == nullptr || *path == '\0') return;
  std::ofstream file(path, std::ios::app | std::ios::binary);
  file << text;
  file.close();
  if (!file) throw write_error(path, errno, ExitCode::environment);
}

/// Writes the files that other programs read. Returns their names.
std::vector<std::string> write_files(const CompareCommand& command, const Comparison& comparison, bool fails_if_inconclusive) {
  std::vector<std::string> files;
  if (!command.junit.empty()) {
    write_new(command.junit, comparison_junit(comparison, fails_if_inconclusive));
    files.push_back(command.junit);
  }
  if (command.github) {
    write_new(kCommentFile, comparison_comment(comparison));
    files.emplace_back(kCommentFile);
    if (const planner::Json benchmarks = comparison_benchmarks(comparison); !benchmarks.empty()) {
      write_new(kBenchmarkFile, benchmarks.dump() + "\n");
      files.emplace_back(kBenchmarkFile);
    }
  }
  return files;
}

int run_compare(const CompareCommand& command, const Session& session) {
  const double threshold = parse_number(command.threshold, "--threshold", 0, kMostThreshold, 100 * kSameBand);
  const bool strict = fails_if_inconclusive(command);
  const Sides sides = sides_of(command);
  check_files(command, sides);
  session.say("comparing " + join(sides.a, ", ") + " with " + join(sides.b, ", "));
  const Comparison comparison = compared(sides, threshold / 100);
  planner::Json json = result_of("compare");
  json.update(comparison_json(comparison));
  json["threshold_percent"] = threshold;
  json["files"] = write_files(command, comparison, strict);
  if (command.markdown) json["markdown"] = render_compared_markdown(comparison);
  session.result(command.markdown ? render_compared_markdown(comparison) : render_compared(comparison, session.style), json);
  if (command.github) append_to_summary(render_compared_markdown(comparison));
  return exit_code_of(comparison.verdict, strict);
}

}  // namespace

void add_compare_command(CLI::App& program, CommandBody& chosen) {
  auto command = std::make_shared<CompareCommand>();
  CLI::App* app = program.add_subcommand("compare", "Says what changed from one trace, plan or study to another, and whether it is slower");
  const std::vector<std::string> files{kFileValue};
  offer_values(*app->add_option("A", command->first, "trace of any format that import reads, plan file, or folder of a study")->required(),
               files);
  offer_values(*app->add_option("B", command->further, "another of the same kind; before --with: more recordings of A"), files);
  offer_values(*app->add_option("--with", command->against,
                                "B's recordings, where a side has several: the verdict then holds whatever drifts between them")
                    ->type_name("FILE")
                    ->group("Input"),
               files);
  app->add_option("--threshold", command->threshold, "B may be slower by so many percent; default: 2")->type_name("PCT")->group("Verdict");
  offer_values(*app->add_option("--fail-on", command->fail_on,
                                "inconclusive (default): also where nothing can be said, with exit code 5; slower: only where B is slower")
                    ->type_name("WHEN")
                    ->group("Verdict"),
               {"inconclusive", "slower"});
  app->add_flag("--markdown", command->markdown, "as a comment on a pull request")->group("Output");
  app->add_flag(
         "--github", command->github,
         "writes comparison.md, a comment, and benchmark.json, a list customSmallerIsBetter, into the current folder, and appends to "
         "the job's summary where GITHUB_STEP_SUMMARY names it")
      ->group("Output");
  offer_values(*app->add_option("--junit", command->junit, "writes JUnit's XML: one test, which fails where this command does")
                    ->type_name("FILE")
                    ->group("Output"),
               files);
  app->add_flag("--force", command->force, "replaces these files whoever wrote them")->group("Output");
  app->footer(
      "Example:\n  mptune compare before.sqlite after.sqlite\n  mptune compare a1.sqlite a2.sqlite --with b1.sqlite b2.sqlite --threshold "
      "3");
  app->callback([command, &chosen] { chosen = [command](const Session& session) { return run_compare(*command, session); }; });
}

}  // namespace mptune::reports
