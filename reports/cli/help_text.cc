#include "reports/cli/help_text.h"

#include <sstream>

#include "profiler/base/text.h"
#include "reports/cli/exit_codes.h"

namespace mptune::reports {
namespace {

constexpr int kDescriptionColumn = 30;

std::string help_title(const std::string& words, const TextStyle& style) {
  return "\n" + paint(style, Color::bold, words + ":") + "\n";
}

std::string help_entry(const std::string& label, const std::string& description, const TextStyle& style) {
  const std::string indented = "  " + label;
  if (display_width(indented) < kDescriptionColumn) return hanging(pad_right(indented, kDescriptionColumn), description, style);
  return indented + "\n" + hanging(std::string(kDescriptionColumn, ' '), description, style);
}

std::string help_groups(const std::vector<OptionText>& options, const TextStyle& style) {
  std::string text, group;
  for (const OptionText& option : options) {
    if (option.group != group) text += help_title(option.group, style);
    group = option.group;
    text += help_entry(label_of(option), option.description + (option.required && !group.empty() ? " (required)" : ""), style);
  }
  return text;
}

std::string notes_text(const std::string& notes, const TextStyle& style) {
  std::istringstream lines(notes);
  std::string text = notes.empty() ? "" : "\n";
  for (std::string line; std::getline(lines, line);) text += line.empty() || line[0] == ' ' ? line + "\n" : hanging("", line, style);
  return text;
}

std::string codes_text(const std::string& command, const TextStyle& style) {
  std::string text;
  for (const ExitCodeMeaning& row : exit_codes_of(command))
    text += hanging("  " + std::to_string(static_cast<int>(row.code)) + "  ", row.meaning, style);
  return text.empty() ? "" : help_title("Exit codes", style) + text + "  others: mptune help exit-codes\n";
}

}  // namespace

std::string render_help(const ProgramText& program, const CommandText& command, const TextStyle& style) {
  const bool whole = command.name.empty();
  std::string text = hanging("", command.description, style) + hanging("Usage: " + full_name(command) + " ", synopsis_of(command), style);
  if (!command.arguments.empty()) {
    text += help_title("Arguments", style);
    for (const OptionText& argument : command.arguments) text += help_entry(label_of(argument), argument.description, style);
  }
  text += help_groups(command.options, style);
  if (whole) {
    text += help_title("Commands", style);
    for (const CommandText& one : program.commands) text += help_entry(one.name, one.description, style);
  } else {
    text += help_groups(program.program.options, style);
  }
  text += notes_text(command.notes, style);
  if (!command.examples.empty()) text += help_title("Example", style) + "  " + join(command.examples, "\n  ") + "\n";
  return text + (whole ? "" : codes_text(command.name, style));
}

std::string render_exit_codes(const TextStyle& style) {
  std::string text;
  for (const ExitCodeMeaning& row : exit_codes()) {
    const std::string label = pad_left(std::to_string(static_cast<int>(row.code)), 3) + "  ";
    text += hanging(label + pad_right(*row.command == '\0' ? "all" : row.command, 10), row.meaning, style);
  }
  return text;
}

}  // namespace mptune::reports
