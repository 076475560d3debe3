#include "profiler/trace/values/model_text.h"

#include <algorithm>
#include <array>
#include <filesystem>

namespace mptune {
namespace {

constexpr std::array kEndings = {".so", ".pt", ".pt2"};

// A path may hold colons. The first colon after a known ending ends it, else the colon before the only option, container=.
std::size_t colon_of_file(const std::string& text) {
  std::size_t first = text.rfind(":container=");
  for (const std::string ending : kEndings) {
    const auto found = text.find(ending + ":");
    first = found == std::string::npos ? first : std::min(first, found + ending.size());
  }
  return first;
}

bool looks_like_file(const std::string& path) {
  std::error_code ignored;
  return path.find('/') != std::string::npos || std::ranges::any_of(kEndings, [&](const char* ending) { return path.ends_with(ending); }) ||
         std::filesystem::is_regular_file(path, ignored);
}

}  // namespace

ModelText parse_model_text(const std::string& text) {
  const auto of_file = colon_of_file(text);
  const bool is_file = looks_like_file(text.substr(0, of_file));
  const auto colon = is_file ? of_file : text.find(':');
  ModelText result{is_file, text.substr(0, colon), colon != std::string::npos, "", ""};
  result.rest = result.has_rest ? text.substr(colon + 1) : "";
  result.stem = std::filesystem::path(result.name).stem().string();
  if (result.stem.empty() || result.stem == "." || result.stem == "..") result.stem = "model";
  return result;
}

}  // namespace mptune
