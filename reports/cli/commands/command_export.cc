#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>

#include "profiler/base/error.h"
#include "profiler/base/nearest_word.h"
#include "profiler/base/new_file.h"
#include "profiler/base/printable.h"
#include "profiler/base/text.h"
#include "profiler/trace/formats/csv.h"
#include "profiler/trace/formats/kineto.h"
#include "profiler/trace/formats/nvtxt.h"
#include "profiler/trace/formats/perfetto.h"
#include "reports/cli/commands/commands.h"
#include "reports/cli/commands/recordings.h"
#include "reports/cli/options/options.h"
#include "reports/cli/program/option_values.h"

namespace mptune::reports {
namespace {

struct ExportCommand {
  std::string source;
  std::string format;
  OutputOptions output;
};

/// What a trace may hold and a format may have no place for.
enum class Content { tags, edges, waits, launches, ranges, shared_ranges, memory, kernels, kernel_places, bytes, plan, quality };

std::int64_t count_of(const profiler::Recording& recording, Content content) {
  const Trace& trace = *recording.trace;
  const auto size = [](const auto& list) { return static_cast<std::int64_t>(list.size()); };
  switch (content) {
    case Content::tags:
      return size(trace.tags);
    case Content::edges:
      return size(trace.edges);
    case Content::waits:
      return std::ranges::count_if(trace.events, [](const Event& e) {
        return e.kind == EventKind::sync || e.kind == EventKind::host || e.kind == EventKind::profiler;
      });
    case Content::launches:
      return size(trace.launches);
    case Content::ranges:
      return size(trace.ranges);
    case Content::shared_ranges:
      return std::ranges::count_if(trace.ranges, [](const Event& e) { return e.device < 0 && e.kind != EventKind::step; });
    case Content::memory:
      return size(trace.memory);
    case Content::kernels:
    case Content::kernel_places:
      return std::ranges::count_if(trace.events, [](const Event& e) { return is_compute(e.kind) && e.detail >= 0; });
    case Content::bytes:
      return size(trace.copies);
    case Content::plan:
      return (recording.plan_json.empty() ? 0 : 1) + (recording.profile ? 1 : 0);
    case Content::quality:
      break;
  }
  const TraceQuality& quality = trace.quality;
  return quality.dropped + quality.untagged + quality.out_of_window + quality.zero_stamped + quality.unmatched + quality.ambiguous;
}

std::string loss_text(Content content, std::int64_t count) {
  switch (content) {
    case Content::tags:
      return "step, stage, micro-batch, layer and replica of events";
    case Content::edges:
      return fmt::format("what waits for what ({} edges)", count);
    case Content::waits:
      return fmt::format("waits and work of host and recorder ({} events)", count);
    case Content::launches:
      return fmt::format("calls of the host ({})", count);
    case Content::ranges:
      return fmt::format("ranges of actions and steps ({})", count);
    case Content::shared_ranges:
      return fmt::format("ranges of no device ({})", count);
    case Content::kernel_places:
      return fmt::format("contexts, streams and numbers of kernels ({}), their static shared memory apart", count);
    case Content::memory:
      return fmt::format("memory in use ({} samples)", count);
    case Content::kernels:
      return fmt::format("grids and registers of kernels ({})", count);
    case Content::bytes:
      return fmt::format("bytes and ends of copies ({})", count);
    case Content::plan:
      return "plan and profile";
    case Content::quality:
      break;
  }
  return "counts of what the recording lost";
}

struct Format {
  const char* name;
  const char* extension;
  std::string magic;  ///< first bytes of every file of ours in this format
  std::vector<Content> left_out;
};

const std::vector<Format>& formats() {
  static const std::vector<Format> kFormats = {
      {"kineto",
       ".json",
       "{\n\"schemaVersion\": 1,\n\"deviceProperties\"",
       {Content::shared_ranges, Content::memory, Content::kernel_places}},
      {"perfetto", ".pftrace", profiler::perfetto_magic(), {Content::edges, Content::kernels, Content::bytes}},
      {"nvtxt",
       ".nvtxt",
       "SetFileDisplayName, mptune\n",
       {Content::tags, Content::edges, Content::launches, Content::memory, Content::kernels, Content::bytes}},
      {"csv",
       ".csv",
       "start_ns,duration_ns,device,lane,what,name,",
       {Content::edges, Content::launches, Content::ranges, Content::memory, Content::kernels}}};
  return kFormats;
}

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const Format& format : formats()) names.emplace_back(format.name);
  return names;
}

const Format& format_named(const std::string& name) {
  const auto found = std::ranges::find_if(formats(), [&](const Format& format) { return name == format.name; });
  if (found == formats().end()) {
    throw Error("unknown trace format '" + name + "'", "--to", did_you_mean(name, format_names(), "use kineto, perfetto, nvtxt or csv"));
  }
  return *found;
}

std::vector<std::string> losses(const profiler::Recording& recording, const Format& format) {
  std::vector<Content> contents = format.left_out;
  contents.insert(contents.end(), {Content::plan, Content::quality});
  std::vector<std::string> texts;
  for (const Content content : contents)
    if (const std::int64_t count = count_of(recording, content); count > 0) texts.push_back(loss_text(content, count));
  return texts;
}

/// Returns "run" for "folder/run.sqlite" and "folder/run.json.gz".
std::string stem_of(const std::string& path) {
  std::filesystem::path name = std::filesystem::path(path).filename();
  name = name.extension() == ".gz" ? name.stem() : name;
  return name.stem().string();
}

std::vector<std::string> write_as(const Format& format, const Trace& trace, const std::string& path) {
  const std::string name = format.name;
  if (name == "kineto") return profiler::write_kineto(trace, path);
  (name == "perfetto" ? profiler::write_perfetto : name == "nvtxt" ? profiler::write_nvtxt : profiler::write_csv)(trace, path);
  return {path};
}

int run_export(const ExportCommand& command, const Session& session) {
  const Format& format = format_named(command.format);
  session.say("reading " + command.source);
  if (is_plan_file(command.source)) {
    throw Error("the file is a plan, not a trace", command.source,
                "give a trace file: only traces are exported, to kineto, perfetto, nvtxt or csv");
  }
  const profiler::Recording recording = read_any_recording(command.source);
  const std::string path = command.output.path.empty() ? stem_of(command.source) + format.extension : command.output.path;
  // Names of files per device begin with it.
  if (std::filesystem::is_directory(path)) throw Error("this is a folder", path, "name a file in it with -o");
  const bool per_device = std::string(format.name) == "kineto";
  for (const std::string& name :
       per_device ? profiler::kineto_names(path, recording.trace->devices.size()) : std::vector<std::string>{path})
    check_output(name, format.magic, command.output.force, {command.source});
  planner::Json json = result_of("export");
  json["files"] = write_as(format, *recording.trace, path);
  json["lossy"] = losses(recording, format);
  std::string text;
  for (const std::string file : json["files"]) text += "wrote       " + printable(file) + "\n";
  for (const std::string loss : json["lossy"]) text += "left out    " + printable(loss) + "\n";
  // A stream that may be the file itself holds nothing but the file.
  const bool to_stream = is_written_directly(path);
  for (const std::string& line : to_stream ? split(text, '\n') : std::vector<std::string>{})
    if (!line.empty()) session.say(line);
  session.result(to_stream ? "" : text, json);
  return 0;
}

}  // namespace

void add_export_command(CLI::App& program, CommandBody& chosen) {
  auto command = std::make_shared<ExportCommand>();
  CLI::App* app = program.add_subcommand("export", "Writes a trace in a format of other programs, and says what that leaves out");
  offer_values(*app->add_option("TRACE", command->source, "trace file, or anything that import reads")->required(), {kFileValue});
  CLI::Option* to =
      app->add_option(
             "--to", command->format,
             "kineto (HTA, TensorBoard, chrome://tracing; a file per device), perfetto (ui.perfetto.dev), nvtxt (Nsight Systems), csv")
          ->type_name("FORMAT")
          ->required()
          ->group(kOutputGroup);
  offer_values(*to, format_names());
  add_output_options(*app, command->output,
                     "output file; default: the trace's name with .json, .pftrace, .nvtxt or .csv in the current folder");
  app->footer("Example:\n  mptune export resnet50.sqlite --to perfetto\n  mptune export report.sqlite --to kineto -o run.json");
  app->callback([command, &chosen] { chosen = [command](const Session& session) { return run_export(*command, session); }; });
}

}  // namespace mptune::reports
