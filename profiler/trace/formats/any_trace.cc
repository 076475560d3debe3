#include "profiler/trace/formats/any_trace.h"

#include <array>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "profiler/base/error.h"
#include "profiler/trace/formats/action_times.h"
#include "profiler/trace/formats/chrome_events.h"
#include "profiler/trace/formats/kineto.h"
#include "profiler/trace/formats/kineto_export.h"
#include "profiler/trace/formats/pipeline_timeline.h"
#include "profiler/trace/ranks/merge_ranks.h"

namespace mptune::profiler {
namespace {

constexpr std::string_view kSqliteMagic{"SQLite format 3\0", 16};
constexpr int kEventsLookedAt = 1000;

bool starts_as_json(TextInput& input) {
  int c = input.sgetc();
  while (c == ' ' || c == '\t' || c == '\r' || c == '\n') c = input.snextc();
  return c == '{' || c == '[';
}

bool is_of_a_pipeline(const ChromeEvent& event) {
  return event.name == "forward-compute" || event.name == "backward-compute" || event.args_name.starts_with("PP rank ");
}

// Reads a file that may hold several ranks, which become one joined trace.
Trace read_kineto_job(const std::string& path) {
  std::vector<RankRecording> recordings = read_kineto_ranks(path);
  return recordings.size() == 1 ? std::move(recordings.front().trace) : merge_ranks(std::move(recordings)).trace;
}

}  // namespace

bool is_sqlite(const std::string& path) {
  std::array<char, kSqliteMagic.size()> start{};
  std::ifstream file(path, std::ios::binary);
  file.read(start.data(), start.size());
  return file && std::string_view(start.data(), start.size()) == kSqliteMagic;
}

TraceFormat trace_format(const std::string& path) {
  if (holds_action_times(path)) return TraceFormat::action_times;
  TextInput input = open_text(path);
  if (is_sqlite(path)) return TraceFormat::sqlite;
  if (!starts_as_json(input))
    throw Error(
        "the file is not a trace of a known format", path,
        "give an SQLite recording, Kineto JSON (.json, .json.gz), a pipeline timeline or times of its actions; of an .nsys-rep, the "
        "result of nsys export --type sqlite");
  bool pipeline = false;
  int count = 0;
  read_chrome_events(input, [&](const ChromeEvent& event) {
    pipeline = is_of_a_pipeline(event);
    return !pipeline && ++count < kEventsLookedAt;
  });
  return pipeline ? TraceFormat::pipeline_timeline : TraceFormat::kineto;
}

Trace read_any_trace(const std::string& path) {
  switch (trace_format(path)) {
    case TraceFormat::sqlite:
      throw std::invalid_argument("read_any_trace does not read SQLite files");
    case TraceFormat::kineto:
      return kineto_part(path) ? read_kineto_export({path}).trace : read_kineto_job(path);
    case TraceFormat::action_times:
      return read_action_timeline({path}).trace;
    case TraceFormat::pipeline_timeline:
      break;
  }
  return read_pipeline_timeline(path);
}

}  // namespace mptune::profiler
