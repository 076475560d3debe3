#include "reports/render/markdown_parts.h"

#include <algorithm>

namespace mptune::reports {
namespace {

std::string line_of(const MarkdownRow& cells) {
  std::string text = "|";
  for (const std::string& cell : cells) text += " " + cell + " |";
  return text + "\n";
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '|' || c == '*' || c == '_' || c == '`' || c == '<' || c == '\\' || c == '#') safe += '\\';
    safe += c == '\n' ? ' ' : c;
  }
  return safe;
}

std::string table_of(MarkdownRow titles, const std::vector<MarkdownRow>& rows) {
  MarkdownRow rule;
  for (std::string& title : titles) {
    const bool right = title.starts_with('>');
    rule.emplace_back(right ? "---:" : ":---");
    title = escaped(right ? title.substr(1) : title);
  }
  std::string text = line_of(titles) + line_of(rule);
  for (MarkdownRow row : rows) {
    std::ranges::transform(row, row.begin(), escaped);
    text += line_of(row);
  }
  return text + "\n";
}

std::string section(const std::string& title) {
  return "## " + title + "\n\n";
}

std::string list_of(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += "- " + escaped(item) + "\n";
  return text.empty() ? "" : text + "\n";
}

std::string block(const std::string& text) {
  return text.empty() ? "" : "```\n" + text + (text.ends_with('\n') ? "" : "\n") + "```\n\n";
}

}  // namespace mptune::reports
