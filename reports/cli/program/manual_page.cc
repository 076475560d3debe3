#include "reports/cli/program/manual_page.h"

#include <algorithm>
#include <sstream>

#include "reports/cli/program/exit_codes.h"

namespace mptune::reports {
namespace {

/// Returns text as roff takes it: no escapes, no requests, and hyphens that can be pasted.
std::string roff(const std::string& text) {
  std::string out = !text.empty() && (text[0] == '.' || text[0] == '\'') ? "\\&" : "";
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if (c == '\'')
      out += "\\(aq";
    else
      out += c;
  }
  return out;
}

std::string bold(const std::string& text) {
  return "\\fB" + roff(text) + "\\fR";
}

std::string italic(const std::string& text) {
  return "\\fI" + roff(text) + "\\fR";
}

/// Returns lines that stay as they are.
std::string verbatim(const std::string& lines) {
  return ".nf\n" + lines + ".fi\n";
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string item(const OptionText& option) {
  std::string label;
  for (const std::string& name : option.names) label += (label.empty() ? "" : ", ") + bold(name);
  return ".TP\n" + label + (option.type.empty() ? "" : " " + italic(option.type)) + "\n" + roff(option.description) + "\n";
}

std::string options_text(const std::vector<OptionText>& options) {
  std::string text, group;
  for (const OptionText& option : options) {
    if (option.group != group) text += ".SS " + roff(option.group) + "\n";
    group = option.group;
    text += item(option);
  }
  return text;
}

std::string notes_section(const std::string& notes) {
  if (notes.empty()) return "";
  std::string text = ".SH NOTES\n";
  std::istringstream lines(notes);
  bool paragraph = false;  // the next line may begin a paragraph
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) {
      paragraph = true;
      continue;
    }
    if (paragraph) text += ".PP\n";
    paragraph = false;
    text += line[0] == ' ' ? verbatim(roff(line) + "\n") : roff(line) + "\n";
  }
  return text;
}

std::string status_section(const std::string& command) {
  std::string text = ".SH EXIT STATUS\n";
  const std::vector<ExitCodeMeaning> own = exit_codes_of(command);
  for (const ExitCodeMeaning& row : exit_codes()) {
    const std::string of = row.command;
    // A meaning of the command itself takes the place of what holds for every command.
    const bool replaced = !command.empty() && of.empty() && std::ranges::find(own, row.code, &ExitCodeMeaning::code) != own.end();
    if (!replaced && (of == command || of.empty()))
      text += ".TP\n" + bold(std::to_string(static_cast<int>(row.code))) + "\n" + roff(row.meaning) + "\n";
  }
  return text;
}

std::string examples_section(const std::vector<std::string>& examples) {
  std::string lines;
  for (const std::string& example : examples) lines += roff(example) + "\n";
  return lines.empty() ? "" : ".SH EXAMPLES\n" + verbatim(lines);
}

std::string related_section(const ProgramText& program, const CommandText& command) {
  std::string text = ".SH SEE ALSO\n";
  if (!command.name.empty()) return text + ".BR mptune (1)\n";
  for (std::size_t i = 0; i < program.commands.size(); ++i)
    text += ".BR " + roff(page_name(program.commands[i])) + " (1)" + (i + 1 < program.commands.size() ? "," : "") + "\n";
  return text;
}

}  // namespace

std::string page_name(const CommandText& command) {
  return command.name.empty() ? "mptune" : "mptune-" + command.name;
}

std::string manual_page(const ProgramText& program, const CommandText& command) {
  std::string text = ".\\\" Made by mptune help --man: do not edit.\n.TH " + roff(upper(page_name(command))) +
                     " 1 \"\" \"mptune " MPTUNE_VERSION "\" \"mptune\"\n";
  text += ".SH NAME\n" + roff(page_name(command)) + " \\- " + roff(command.description) + "\n";
  text += ".SH SYNOPSIS\n" + bold(full_name(command)) + " " + roff(synopsis_of(command)) + "\n";
  if (!command.arguments.empty()) text += ".SH ARGUMENTS\n";
  for (const OptionText& argument : command.arguments) text += item(argument);
  text += ".SH OPTIONS\n" + options_text(command.options);
  if (command.name.empty()) {
    text += ".SH COMMANDS\n";
    for (const CommandText& one : program.commands) text += ".TP\n" + bold(one.name) + "\n" + roff(one.description) + "\n";
  } else {
    text += options_text(program.program.options);
  }
  text += notes_section(command.notes) + examples_section(command.examples) + status_section(command.name);
  return text + related_section(program, command);
}

}  // namespace mptune::reports
