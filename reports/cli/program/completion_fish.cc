#include "profiler/base/text.h"
#include "reports/cli/program/completion.h"

namespace mptune::reports {
namespace {

/// Returns `text` quoted as one word of fish.
std::string fish_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += (c == '\'' || c == '\\' ? "\\" : "") + std::string(1, c);
  return quoted + "'";
}

std::string about(const std::string& description) {
  return " -d " + fish_quoted(first_clause(description)) + "\n";
}

std::string option_line(const std::string& begin, const OptionText& option) {
  std::string text = begin;
  for (const std::string& name : option.names) text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (!option.type.empty()) text += option.files ? " -r -F" : " -x";
  if (!option.words.empty()) text += " -a " + fish_quoted(join(option.words, " "));
  return text + about(option.description);
}

std::string argument_line(const std::string& begin, const OptionText& argument) {
  if (argument.words.empty() && !argument.files) return "";
  const std::string words = argument.words.empty() ? "" : " -a " + fish_quoted(join(argument.words, " "));
  return begin + (argument.files ? " -F" : "") + words + about(argument.names[0]);
}

}  // namespace

std::string fish_completion(const ProgramText& program) {
  std::string text = "# Completion of mptune in fish, made by: mptune completion fish\ncomplete -c mptune -f\n";
  for (const OptionText& option : program.program.options) text += option_line("complete -c mptune", option);
  for (const CommandText& command : program.commands)
    text += "complete -c mptune -n __fish_use_subcommand -a " + command.name + about(command.description);
  for (const CommandText& command : program.commands) {
    const std::string begin = "complete -c mptune -n '__fish_seen_subcommand_from " + command.name + "'";
    for (const OptionText& option : command.options) text += option_line(begin, option);
    for (const OptionText& argument : command.arguments) text += argument_line(begin, argument);
  }
  return text;
}

}  // namespace mptune::reports
