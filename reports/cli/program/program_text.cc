#include "reports/cli/program/program_text.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>

#include "profiler/base/text.h"
#include "reports/cli/program/option_values.h"

namespace mptune::reports {
namespace {

std::vector<std::string> names_of_option(const CLI::Option& option) {
  if (option.get_positional()) return {option.get_name(true)};
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

OptionText option_text_of(CLI::Option& option) {
  OptionText text;
  text.names = names_of_option(option);
  text.description = option.get_description();
  text.required = option.get_required();
  text.repeats = option.get_positional() && option.get_items_expected_max() > 1;
  if (!option.get_positional()) {
    text.group = option.get_group();
    text.type = option.get_type_size() == 0 ? "" : option.get_type_name();
  }
  text.words = values_of(option);
  text.files = std::erase(text.words, kFileValue) > 0;
  return text;
}

void read_footer(const std::string& footer, CommandText& text) {
  std::istringstream lines(footer);
  bool example = false;
  for (std::string line; std::getline(lines, line);) {
    if (line == "Example:") {
      example = true;
    } else if (example && !line.empty()) {
      text.examples.push_back(line.substr(line.find_first_not_of(' ')));
    } else {
      if (!example && (!line.empty() || !text.notes.empty())) text.notes += line + "\n";
      example = false;
    }
  }
  while (text.notes.ends_with("\n\n")) text.notes.pop_back();
}

CommandText command_text_of(CLI::App& command) {
  CommandText text;
  text.description = command.get_description();
  std::vector<std::string> groups;
  for (CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;
    OptionText read = option_text_of(*option);
    if (read.group.empty()) {
      text.arguments.push_back(std::move(read));
    } else {
      if (std::ranges::find(groups, read.group) == groups.end()) groups.push_back(read.group);
      text.options.push_back(std::move(read));
    }
  }
  std::ranges::stable_sort(text.options, {}, [&](const OptionText& option) { return std::ranges::find(groups, option.group); });
  read_footer(command.get_footer(), text);
  return text;
}

}  // namespace

ProgramText text_of(CLI::App& program) {
  ProgramText text;
  text.program = command_text_of(program);
  for (CLI::App* command : program.get_subcommands([](CLI::App*) { return true; })) {
    text.commands.push_back(command_text_of(*command));
    text.commands.back().name = command->get_name();
  }
  return text;
}

const CommandText* find_command(const ProgramText& program, const std::string& name) {
  const auto found = std::ranges::find(program.commands, name, &CommandText::name);
  return found == program.commands.end() ? nullptr : &*found;
}

std::vector<std::string> command_names(const ProgramText& program) {
  std::vector<std::string> names;
  for (const CommandText& command : program.commands) names.push_back(command.name);
  return names;
}

std::string full_name(const CommandText& command) {
  return command.name.empty() ? "mptune" : "mptune " + command.name;
}

std::string label_of(const OptionText& option) {
  return join(option.names, ",") + (option.type.empty() ? "" : " " + option.type) + (option.repeats ? " ..." : "");
}

std::string synopsis_of(const CommandText& command) {
  std::string text = "[OPTIONS]";
  for (const OptionText& option : command.options)
    if (option.required) text += " " + option.names.back() + " " + option.type;
  for (const OptionText& argument : command.arguments)
    text += " " + (argument.required ? label_of(argument) : "[" + label_of(argument) + "]");
  return text + (command.name.empty() ? " COMMAND ..." : "");
}

}  // namespace mptune::reports
