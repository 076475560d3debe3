#include "profiler/trace/formats/any_profile.h"

#include <filesystem>

#include "profiler/base/error.h"
#include "profiler/trace/formats/any_trace.h"
#include "profiler/trace/formats/operator_tables.h"

namespace mptune::profiler {
namespace {

constexpr std::size_t kLookedAt = 4096;

// Returns the first line that is not blank, without leading blanks.
std::string first_words(const std::string& path) {
  TextInput input = open_text(path);
  std::string text;
  for (std::size_t i = 0; i < kLookedAt; ++i) {
    const int c = input.sbumpc();
    if (c == TextInput::traits_type::eof() || (c == '\n' && !text.empty())) break;
    const bool blank = c == ' ' || c == '\t' || c == '\r' || c == '\n';
    if (!blank || !text.empty()) text.push_back(static_cast<char>(c));
  }
  return text;
}

}  // namespace

ProfileFormat profile_format(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored) && !operator_table_files(path).empty()) return ProfileFormat::operator_tables;
  const std::string words = first_words(path);
  if (is_sqlite(path)) return ProfileFormat::sqlite;
  if (words.starts_with('{') || words.starts_with('[')) return ProfileFormat::placement;
  if (words.starts_with("op_name,"))
    throw Error("the file is one of several operator tables", path, "give their common prefix, up to _mbs: all micro-batch sizes are read");
  if (words.find(" -- ") != std::string::npos) return ProfileFormat::layer_graph;
  throw Error("the file is not a profile of a known format", path,
              "give a file that mptune profile wrote, a graph.txt of PipeDream, the prefix of Aceso's tables or a dnn-partitioning JSON");
}

}  // namespace mptune::profiler
