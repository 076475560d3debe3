#include "reports/cli/program/help_text.h"

#include <algorithm>
#include <sstream>

#include "profiler/base/text.h"
#include "reports/cli/program/exit_codes.h"

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

/// Returns a command that is too long for the terminal, broken so that a shell still reads it as one command.
std::string command_lines(const std::string& command, const TextStyle& style) {
  constexpr const char* kGoesOn = " \\";
  std::string text, line = "  ";
  for (const std::string& word : split(command, ' ')) {
    const bool first = line.find_first_not_of(' ') == std::string::npos;
    if (!first && display_width(line) + 1 + display_width(word) + 2 > style.width) {
      text += line + kGoesOn + "\n";
      line = "    " + word;
    } else {
      line += (first ? "" : " ") + word;
    }
  }
  return text + line + "\n";
}

/// Returns an example; the comment of a command that is too long stands above the command instead of after it.
std::string example_text(const std::string& example, const TextStyle& style) {
  if (display_width(example) + 2 <= style.width) return "  " + example + "\n";
  const std::size_t comment = std::min(example.find("  # "), example.size());
  std::string command = example.substr(0, comment);
  command.erase(command.find_last_not_of(' ') + 1);
  const std::string above = comment == example.size() ? "" : hanging("  # ", example.substr(example.find("# ", comment) + 2), style);
  return above + (display_width(command) + 2 <= style.width ? "  " + command + "\n" : command_lines(command, style));
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
  if (!command.examples.empty()) {
    text += help_title("Example", style);
    for (const std::string& example : command.examples) text += example_text(example, style);
  }
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
