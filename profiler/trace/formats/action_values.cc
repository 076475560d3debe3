#include "profiler/trace/formats/action_values.h"

#include <cmath>
#include <filesystem>

#include "profiler/base/error.h"
#include "profiler/trace/values/plausible_times.h"

namespace mptune::profiler {
namespace {

constexpr std::size_t kActionBlock = std::size_t{64} << 10;
constexpr std::size_t kMostActionText = std::size_t{1} << 30;
constexpr std::size_t kLongestHeader = 4096;
constexpr double kNanosecondsPerMs = 1e6;

// True if a JSON text has a member of this quoted name.
bool has_key(const std::string& text, const std::string& quoted) {
  for (std::size_t at = text.find(quoted); at != std::string::npos; at = text.find(quoted, at + 1)) {
    const std::size_t behind = text.find_first_not_of(" \t\r\n", at + quoted.size());
    if (behind != std::string::npos && text[behind] == ':') return true;
  }
  return false;
}

// Appends up to `count` bytes of the text.
void read_some(TextInput& input, std::string& text, std::size_t count) {
  const std::size_t before = text.size();
  text.resize(before + count);
  const std::streamsize got = input.sgetn(text.data() + before, static_cast<std::streamsize>(count));
  text.resize(before + static_cast<std::size_t>(got));
}

}  // namespace

std::string put_times(TimedAction& action, double start_ms, double end_ms) {
  const double most_ms = static_cast<double>(kLongestRecording.count()) / kNanosecondsPerMs;
  if (!std::isfinite(start_ms) || !std::isfinite(end_ms)) return "has no finite time";
  if (std::abs(start_ms) > most_ms || std::abs(end_ms) > most_ms) return "lies over 14 months from the start of its iteration";
  if (end_ms < start_ms) return "ends before it starts";
  action.start = Nanoseconds{std::llround(start_ms * kNanosecondsPerMs)};
  action.end = Nanoseconds{std::llround(end_ms * kNanosecondsPerMs)};
  return "";
}

std::string whole_text(TextInput& input) {
  std::string text;
  for (std::size_t before = 1; text.size() != before;) {
    before = text.size();
    read_some(input, text, kActionBlock);
    input.token();
    if (text.size() > kMostActionText) throw Error("the file holds more than 1 GiB", input.where(), "give fewer iterations");
  }
  return text;
}

bool begins_like_actions(TextInput& input) {
  std::string text;
  read_some(input, text, kActionBlock);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text.find("\"traceEvents\"") != std::string::npos) return false;
  if (text[first] == '{' || text[first] == '[') return has_key(text, "\"fwd_start\"");
  const std::string header = text.substr(0, text.find('\n'));
  const auto has = [&](const char* column) { return header.find(column) != std::string::npos; };
  return header.size() <= kLongestHeader && header.find('\0') == std::string::npos && has("rank") && has("kind") && has("start_ms") &&
         has("end_ms");
}

std::string rank_stem(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  return name.substr(0, name.find('.'));
}

}  // namespace mptune::profiler
