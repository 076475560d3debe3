#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "profiler/base/error.h"
#include "profiler/base/nearest_word.h"
#include "profiler/base/text.h"
#include "reports/cli/commands/commands.h"
#include "reports/cli/program/completion.h"
#include "reports/cli/program/help_text.h"
#include "reports/cli/program/manual_page.h"
#include "reports/cli/program/option_values.h"

namespace mptune::reports {
namespace {

constexpr const char* kExitCodes = "exit-codes";
constexpr int kMostHelpColumns = 120;  // wider lines do not read well

struct HelpCommand {
  std::string topic;
  bool manual = false;
  std::string folder;  ///< folder to write all pages and completion scripts into; "" for none
};

const CommandText& command_of(const ProgramText& program, const std::string& topic) {
  if (topic.empty()) return program.program;
  if (const CommandText* command = find_command(program, topic)) return *command;
  std::vector<std::string> topics = command_names(program);
  topics.emplace_back(kExitCodes);
  throw Error("there is no help on '" + topic + "'", "mptune help", did_you_mean(topic, topics, "see mptune --help"));
}

std::string text_on(const HelpCommand& help, const ProgramText& program, const TextStyle& style) {
  if (help.topic == kExitCodes && !help.manual) return render_exit_codes(style);
  const CommandText& command = command_of(program, help.topic);
  return help.manual ? manual_page(program, command) : render_help(program, command, style);
}

planner::Json json_of(const std::vector<OptionText>& options) {
  planner::Json list = planner::Json::array();
  for (const OptionText& option : options) list.push_back({{"names", option.names}, {"type", option.type}, {"help", option.description}});
  return list;
}

/// Returns the options of all commands, of which the Python package's functions are made.
planner::Json options_json(const ProgramText& program) {
  planner::Json json;
  json[""] = json_of(program.program.options);
  for (const CommandText& command : program.commands) json[command.name] = json_of(command.options);
  return json;
}

/// Writes what an installation has, below `folder`: manual pages, completion scripts, and a list of all options.
void write_all(const std::string& folder, const ProgramText& program) {
  const auto write = [&](const std::string& name, const std::string& text) {
    const std::filesystem::path path = std::filesystem::path(folder) / name;
    std::filesystem::create_directories(path.parent_path());
    write_text_file(path.string(), text, true, {});
  };
  write("man/man1/mptune.1", manual_page(program, program.program));
  for (const CommandText& command : program.commands) write("man/man1/" + page_name(command) + ".1", manual_page(program, command));
  for (const CompletionShell& shell : completion_shells()) write(shell.path, shell.script(program));
  write("mptune/options.json", options_json(program).dump(1) + "\n");
}

int show(const HelpCommand& help, const ProgramText& program, const Session& session) {
  TextStyle style = session.style;
  style.width = std::min(style.width, kMostHelpColumns);
  if (!help.folder.empty()) write_all(help.folder, program);
  const std::string text = help.folder.empty() ? text_on(help, program, style) : "";
  planner::Json json = result_of("help");
  json["text"] = finished(style, text);
  session.result(text, json);
  return 0;
}

std::vector<std::string> topics_of(CLI::App& program) {
  std::vector<std::string> topics;
  for (const CLI::App* command : program.get_subcommands([](CLI::App*) { return true; })) topics.push_back(command->get_name());
  topics.emplace_back(kExitCodes);
  return topics;
}

}  // namespace

CommandBody help_on(const ProgramText& program, const std::string& command) {
  return [program, command](const Session& session) { return show({command, false, ""}, program, session); };
}

void add_help_command(CLI::App& program, CommandBody& chosen) {
  auto help = std::make_shared<HelpCommand>();
  CLI::App* app = program.add_subcommand("help", "Shows the options of a command, as COMMAND --help does, or the table of exit codes");
  CLI::Option* topic = app->add_option("TOPIC", help->topic, "a command, or exit-codes; without it, help on mptune");
  offer_values(*topic, topics_of(program));
  app->add_flag("--man", help->manual, "as a manual page, in the macros of man")->group("Output");
  app->add_option("--write", help->folder, "write all manual pages, completion scripts and the list of options below this folder")
      ->group("");
  app->footer("Example:\n  mptune help tune\n  mptune help exit-codes\n  mptune help --man tune | man -l -");
  app->callback([help, &program, &chosen] {
    const ProgramText text = text_of(program);
    if (help->topic != kExitCodes) (void)command_of(text, help->topic);
    chosen = [help, text](const Session& session) { return show(*help, text, session); };
  });
}

}  // namespace mptune::reports
