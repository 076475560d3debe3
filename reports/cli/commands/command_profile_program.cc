#include <dlfcn.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>

#include "profiler/base/error.h"
#include "profiler/base/new_file.h"
#include "profiler/base/printable.h"
#include "profiler/base/shell_command.h"
#include "profiler/base/temporary_folder.h"
#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "profiler/trace/store/store.h"
#include "reports/cli/commands/commands.h"
#include "reports/cli/commands/recordings.h"
#include "reports/cli/options/options.h"
#include "tuner/worker/host/interrupt.h"
#include "tuner/worker/host/program_run.h"
#include "tuner/worker/host/worker_process.h"

namespace mptune::reports {
namespace {

namespace fs = std::filesystem;

constexpr const char* kForeign = "mptune can't split another program over devices: mptune tune needs the model itself";

struct ProgramCommand {
  std::vector<std::string> words;
  OutputOptions output;
};

/// One process that gave work to a GPU.
struct Process {
  std::string number;
  std::string file;  ///< its recording, first in the temporary folder, then where it is kept
  Nanoseconds busy{0};
};

bool has_driver() {
  return dlopen("libcuda.so.1", RTLD_LAZY) != nullptr;
}

/// Returns the command on one line, cut where it is long.
std::string shown(const std::vector<std::string>& words) {
  constexpr int kMost = 60;
  const std::string text = printable(one_line(join(words, " ")));
  const std::string cut = clip_text(text, kMost);
  return cut == text ? text : cut + " ...";
}

std::string word_of_signal(int signal) {
  return fmt::format("signal {} ({})", signal, strsignal(signal));
}

tuner::ProgramEnd record_program(const ProgramCommand& command, const std::string& library, const TemporaryFolder& folder,
                                 const Session& session) {
  tuner::ProgramOptions options;
  options.variables = {
      {"CUDA_INJECTION64_PATH", library}, {"NVTX_INJECTION64_PATH", library}, {"MPTUNE_RECORD_PATH", folder.file("recording")}};
  options.output_to_errors = session.options.json;
  for (const auto& [name, value] : options.variables)
    if (const char* other = std::getenv(name.c_str()); other != nullptr && *other != '\0')
      session.warn(name + " is set already; this recording overrides it");
  return tuner::run_program(command.words, options, tuner::interrupt_flag());
}

/// Returns the files "recording.NUMBER.ending" of the folder, ordered by the numbers of their processes.
std::vector<Process> files_of(const TemporaryFolder& folder, const std::string& ending) {
  std::vector<Process> found;
  for (const auto& entry : fs::directory_iterator(fs::path(folder.file("recording")).parent_path()))
    if (entry.path().extension() == ending) found.push_back({entry.path().stem().extension().string().substr(1), entry.path().string()});
  std::ranges::sort(found, {}, [](const Process& process) { return std::pair(process.number.size(), process.number); });
  return found;
}

/// Returns why processes were not recorded, each reason once.
std::vector<Error> refusals_of(const TemporaryFolder& folder) {
  std::vector<Error> refusals;
  std::set<std::string> seen;
  for (const Process& process : files_of(folder, ".error")) {
    std::ifstream note(process.file);
    std::string what, where, remedy, code;
    if (!std::getline(note, what) || !std::getline(note, where) || !std::getline(note, remedy) || !std::getline(note, code)) {
      what = "a process could not say why it was not recorded";
      where = process.file;
      remedy = "look whether the disk is full";
    }
    if (seen.insert(what + where).second) {
      const bool usage = code == std::to_string(static_cast<int>(ExitCode::usage));
      refusals.emplace_back(what, where, remedy, usage ? ExitCode::usage : ExitCode::environment);
    }
  }
  return refusals;
}

[[noreturn]] void throw_nothing_recorded(const std::vector<Error>& refusals, const std::string& command) {
  if (!refusals.empty()) throw refusals.front();
  if (!has_driver()) {
    throw Error("there is no CUDA driver on this machine, so no work of a GPU to record", "libcuda.so.1",
                "record on a machine with an NVIDIA GPU and its driver", ExitCode::environment);
  }
  throw Error("the command gave no work to a GPU, or was ended before it could hand over its recording", command,
              "give a command that uses CUDA and ends by itself");
}

/// Returns "train.sqlite" for the first file, "train.2.sqlite" for the second.
std::string numbered(const std::string& path, std::size_t index) {
  const fs::path whole(path);
  return index == 0 ? path : (whole.parent_path() / whole.stem()).string() + "." + std::to_string(index + 1) + whole.extension().string();
}

/// Moves the recordings to where they are kept, the first to `path`, which was checked before they were made.
/// Skips the names of existing files that mptune did not write, instead of failing and losing the recording.
void keep(std::vector<Process>& processes, const std::string& path, bool force) {
  std::size_t number = 0;
  for (Process& process : processes) {
    while (number > 0 && !force && is_foreign(numbered(path, number), kSqliteMagic)) ++number;
    const std::string place = numbered(path, number++);
    move_file(process.file, place, ExitCode::environment);
    process.file = place;
  }
}

[[noreturn]] void throw_interrupted(std::vector<Process> processes, const std::string& path, bool force) {
  keep(processes, path, force);
  const std::string shown = "`" + ShellCommand("mptune report").file(path).word("--text").text() + "` shows what was recorded until then";
  throw tuner::interrupt_error("mptune", processes.empty() ? "start the command again" : shown);
}

/// Returns the recording of the process that kept GPUs busy longest, and orders `processes` by this time.
profiler::Recording read_busiest(std::vector<Process>& processes) {
  profiler::Recording busiest;
  std::optional<Nanoseconds> most;
  for (Process& process : processes) {
    profiler::Recording recording = read_any_recording(process.file);
    for (const Event& event : recording.trace->events) process.busy += event.kind == EventKind::profiler ? Nanoseconds{0} : event.duration;
    if (!most || process.busy > *most) {
      most = process.busy;
      busiest = std::move(recording);
    }
  }
  std::ranges::stable_sort(processes, std::greater{}, &Process::busy);
  return busiest;
}

planner::Json program_json(const ProgramCommand& command, const tuner::ProgramEnd& end, const std::vector<Process>& processes,
                           const TraceReport& report) {
  planner::Json json = result_of("profile");
  json["trace"] = processes.front().file;
  json["command"] = command.words;
  json["exit_status"] = end.signal != 0 ? 128 + end.signal : end.exit_code;
  json["processes"] = planner::Json::array();
  for (const Process& process : processes) {
    json["processes"].push_back({{"process", std::stoll(process.number)},
                                 {"trace", process.file},
                                 {"busy_s", std::chrono::duration<double>(process.busy).count()}});
  }
  put_foreign_trace(json, report);
  return json;
}

std::string program_text(const std::vector<Process>& processes, const TraceReport& report, const Session& session) {
  std::string text = render_foreign_trace(report, session.style) + kForeign + "\n";
  for (const Process& process : processes) {
    text += fmt::format("trace   {}   process {}, {} of work\n", printable(process.file), process.number,
                        format_seconds(std::chrono::duration<double>(process.busy).count()));
  }
  return text;
}

int run_profile_program(const ProgramCommand& command, const Session& session) {
  if (command.words.empty())
    throw Error("no command follows --", "mptune profile --", "name a program, as in: mptune profile -- python train.py");
  const std::string name = fs::path(command.words[0]).stem().string();
  const std::string path = command.output.path.empty() ? name + ".sqlite" : command.output.path;
  const std::string library = tuner::find_injection();
  check_output(path, kSqliteMagic, command.output.force, command.words);
  session.say("recording " + shown(command.words));
  if (!has_driver()) session.warn("this machine has no CUDA driver: nothing will be recorded unless the command brings one");
  const TemporaryFolder folder(fs::absolute(path).parent_path().string());
  const tuner::ProgramEnd end = record_program(command, library, folder, session);
  std::vector<Process> processes = files_of(folder, ".sqlite");
  if (end.interrupted) throw_interrupted(std::move(processes), path, command.output.force);
  const bool failed = end.signal != 0 || end.exit_code != 0;
  if (failed) {
    session.warn("the command " +
                 (end.signal != 0 ? "was ended by " + word_of_signal(end.signal) : "failed with status " + std::to_string(end.exit_code)) +
                 (processes.empty() ? "" : ": this is what was recorded until then"));
  }
  const std::vector<Error> refusals = refusals_of(folder);
  if (processes.empty()) throw_nothing_recorded(refusals, command.words[0]);
  for (const Error& refusal : refusals) session.warn("a process was not recorded: " + refusal.problem() + ": " + refusal.where());
  const profiler::Recording recording = read_busiest(processes);
  keep(processes, path, command.output.force);
  const TraceReport report = report_of_recording(recording, shown(command.words));
  session.result(program_text(processes, report, session), program_json(command, end, processes, report));
  const int verdict = verdict_code(session, report);
  return failed ? static_cast<int>(ExitCode::inconclusive) : verdict;
}

}  // namespace

std::string program_recording_help() {
  return "Recording another CUDA program: mptune profile [-o FILE] [--force] -- COMMAND ...\n"
         "The trace file is COMMAND.sqlite in the current folder unless -o names another.\n"
         "The command keeps its input and its output; with --json its output goes to standard error.\n"
         "Every process that uses a GPU is recorded, children included, if it ends by itself before the command does.\n"
         "Exit code 5 where the command failed; its own exit status is `exit_status` in the JSON object.";
}

void add_profile_program_command(CLI::App& program, CommandBody& chosen, const std::vector<std::string>& words) {
  auto command = std::make_shared<ProgramCommand>();
  command->words = words;
  CLI::App* app = program.add_subcommand("profile", "Records another CUDA program");
  add_output_options(*app, command->output, "trace file; default: COMMAND.sqlite in the current folder");
  app->footer("Example:\n  mptune profile -- python train.py --epochs 1\n\n" + program_recording_help());
  app->callback([command, &chosen] { chosen = [command](const Session& session) { return run_profile_program(*command, session); }; });
}

}  // namespace mptune::reports
