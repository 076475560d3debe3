#include "reports/values/shared_files.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include "profiler/base/shell_command.h"
#include "profiler/base/text.h"
#include "profiler/trace/values/training_spec.h"

namespace mptune::reports {
namespace {

constexpr std::string_view kBefore = "\n \"'`(=,:[";
constexpr std::string_view kEnds = "\n \"'`),;]";
constexpr std::string_view kQuotes = "\"'`";

/// Returns true where a path begins: "a / b" is a quotient, and "https://" an address.
bool begins_path(const std::string& text, std::size_t at) {
  if (text[at] != '/' || at + 1 == text.size()) return false;
  const bool is_first = at == 0 || kBefore.find(text[at - 1]) != std::string_view::npos;
  return is_first && text[at + 1] != '/' && kEnds.find(text[at + 1]) == std::string_view::npos;
}

std::string path_at(const std::string& text, std::size_t at) {
  const bool quoted = at > 0 && kQuotes.find(text[at - 1]) != std::string_view::npos;
  const std::size_t end = quoted ? text.find(text[at - 1], at) : text.find_first_of(kEnds, at);
  return text.substr(at, std::min(end, text.size()) - at);
}

}  // namespace

std::string study_name(const StudyReport& report) {
  return std::filesystem::path(absolute_path(report.study)).filename().string();
}

std::string beside_study(const StudyReport& report, const std::string& file) {
  return study_name(report) + "/" + std::filesystem::path(file).lexically_relative(report.study).string();
}

std::string where_to_give_commands(const StudyReport& report) {
  const std::vector<std::string> files = bare_files(without_folders(report.training));
  return "In the folder that holds " + study_name(report) + (files.empty() ? "" : " and " + join(files, ", "));
}

std::string names_of_files(const std::string& text) {
  std::string named;
  for (std::size_t at = 0; at < text.size();) {
    if (!begins_path(text, at)) {
      named += text[at++];
      continue;
    }
    const std::string path = path_at(text, at);
    named += path.substr(path.find_last_of('/', path.size() - 2) + 1);
    at += path.size();
  }
  return named;
}

}  // namespace mptune::reports
