#include "reports/cli/help_text.h"

#include <sstream>

#include "profiler/base/index.h"
#include "reports/render/style.h"

namespace mptune::reports {
namespace {

std::string wrapped(const std::string& line, std::size_t description, int columns) {
  const bool described = line.size() > description && line.starts_with(' ') && line[description] != ' ' && line[description - 1] == ' ';
  if (line.starts_with(' ') && !described) return line + "\n";
  const std::size_t begin = described ? description : 0;
  return hanging(line.substr(0, begin), line.substr(begin), {.width = columns});
}

}  // namespace

std::string wrap_help(const std::string& text, int description_column, int columns) {
  std::istringstream lines(text);
  std::string out;
  for (std::string line; std::getline(lines, line);)
    if (!line.empty() || !out.ends_with("\n\n")) out += line.empty() ? "\n" : wrapped(line, as_index(description_column), columns);
  return out;
}

}  // namespace mptune::reports
