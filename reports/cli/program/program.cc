#include "reports/cli/program/program.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string_view>

#include "profiler/base/error.h"
#include "profiler/base/nearest_word.h"
#include "profiler/base/printable.h"
#include "profiler/base/text.h"
#include "reports/cli/program/option_values.h"
#include "reports/cli/program/program_text.h"

namespace mptune::reports {
namespace {

const std::vector<std::string> kColorSettings = {"auto", "always", "never"};

/// Returns the options of the command and of the program, and the program's commands.
std::vector<std::string> words_of(const CLI::App& command) {
  std::vector<std::string> words;
  if (command.get_parent() != nullptr)
    for (const CLI::Option* option : command.get_parent()->get_options())
      for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  for (const CLI::App* sub : command.get_subcommands([](const CLI::App*) { return true; })) words.push_back(sub->get_name());
  return words;
}

/// Returns the error for what CLI11 could not place: an unknown command or option, or one argument too many.
Error unknown_argument(const CLI::App& program, const CLI::App& command, const std::string& where) {
  std::vector<std::string> remaining = command.remaining();
  if (remaining.empty()) remaining = program.remaining(true);
  const std::string word = remaining.empty() ? "" : remaining.front();
  const bool option = !word.empty() && word.front() == '-';
  const bool no_command = &command == &program;
  const std::string what = option       ? "there is no option '" + word + "'"
                           : no_command ? "there is no command '" + word + "'"
                                        : "'" + word + "' is one argument too many";
  return {what, where, did_you_mean(word.substr(0, word.find('=')), words_of(command), "see " + where + " --help")};
}

Error usage_error(const CLI::App& program, const CLI::ParseError& error) {
  const auto chosen = program.get_subcommands();
  const CLI::App& command = chosen.empty() ? program : *chosen.front();
  const std::string where = chosen.empty() ? "mptune" : "mptune " + command.get_name();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) return unknown_argument(program, command, where);
  if (chosen.empty() && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    if (!program.remaining().empty()) return unknown_argument(program, command, where);
    return {"a command is missing", where, "see mptune --help"};
  }
  return {one_line(error.what()), where, "see " + where + " --help"};
}

void add_global_options(CLI::App& program, GlobalOptions& options) {
  const auto add = [&](CLI::Option* option) {
    option->group("Global");
    return option;
  };
  add(program.add_flag("--json", options.json, "print exactly one JSON object on stdout"));
  add(program.add_flag("-q,--quiet", options.quiet, "print no progress"));
  add(program.add_flag("-v,--verbose", options.verbose, "print a line for each part of the work as it begins"));
  offer_values(*add(program.add_option("--color", options.color, "colours: auto, always or never; default: auto")->type_name("WHEN")),
               kColorSettings);
  offer_values(*add(program.add_option("--config", options.config, "read defaults from this file instead of the mptune.toml that is found")
                        ->type_name("FILE")),
               {kFileValue});
  add(program.add_flag("--no-config", options.no_config, "read no mptune.toml"));
}

void check_global_options(const GlobalOptions& options) {
  if (std::ranges::find(kColorSettings, options.color) == kColorSettings.end()) {
    throw Error("invalid colour setting '" + options.color + "'", "--color",
                did_you_mean(options.color, kColorSettings, "use auto, always or never"));
  }
  if (options.quiet && options.verbose) throw Error("quiet and verbose exclude each other", "-v", "leave -q or -v out");
  if (options.no_config && !options.config.empty())
    throw Error("--config and --no-config exclude each other", "--no-config", "leave --config or --no-config out");
}

/// Returns the number of arguments before `--`, which is not counted.
int count_before_marker(int argc, char** argv) {
  return static_cast<int>(std::find(argv, argv + argc, std::string_view("--")) - argv);
}

/// Returns true for `mptune profile -- ...`.
bool records_program(int argc, char** argv) {
  const int count = count_before_marker(argc, argv);
  for (int i = 1; i < count && count < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--color" || word == "--config")
      ++i;
    else if (!word.starts_with('-'))
      return word == "profile";
  }
  return false;
}

CommandBody version_body() {
  return [](const Session& session) {
    planner::Json json = result_of("version");
    json["version"] = MPTUNE_VERSION;
    json["built_with"] = MPTUNE_BUILT_WITH;
    session.result("mptune " MPTUNE_VERSION "\n" MPTUNE_BUILT_WITH "\n", json);
    return 0;
  };
}

/// Returns what `mptune` by itself does: it prints its help, and has the exit code of a command line without a command.
CommandBody help_without_command(CLI::App& program) {
  return [help = help_on(text_of(program), "")](const Session& session) {
    (void)help(session);
    return static_cast<int>(ExitCode::usage);
  };
}

bool lacks_command(const CLI::App& program, const CLI::ParseError& error) {
  return program.get_subcommands().empty() && program.remaining().empty() && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
}

/// Adds options and commands of the program; `argc` loses the command that `mptune profile --` records.
void add_everything(CLI::App& program, int& argc, char** argv, CommandLine& line) {
  program.set_help_flag("-h,--help", "print this help and exit")->group("Global");
  program.set_version_flag("--version", "", "print versions and exit")->group("Global");
  program.require_subcommand(1);
  program.fallthrough();
  program.footer(
      "mptune help COMMAND tells more of a command, mptune help exit-codes what exit codes mean.\n\n"
      "Example:\n  mptune tune resnet50 --input 3x64x64 --devices cpu:0,cpu:1 --budget 150s");
  add_global_options(program, line.options);
  if (records_program(argc, argv)) {
    const int count = count_before_marker(argc, argv);
    add_profile_program_command(program, line.body, {argv + count + 1, argv + argc});
    argc = count;
  } else {
    add_profile_command(program, line.body);
  }
  for (const auto add : {add_plan_command, add_tune_command, add_run_command, add_check_command, add_simulate_command, add_compare_command,
                         add_report_command, add_import_command, add_export_command, add_models_command, add_doctor_command,
                         add_completion_command, add_help_command})
    add(program, line.body);
  // The program's own --help is listed with each command.
  for (CLI::App* command : program.get_subcommands([](CLI::App*) { return true; })) command->get_help_ptr()->group("");
}

}  // namespace

CommandLine parse_command_line(int argc, char** argv) {
  CommandLine line;
  CLI::App program("Finds the fastest way to split the training step of a model over several devices", "mptune");
  add_everything(program, argc, argv, line);
  try {
    program.parse(argc, argv);
  } catch (const CLI::CallForVersion&) {
    line.options.json = asks_for_json(argc, argv);  // the flag may end the parsing before --json is reached
    line.body = version_body();
    return line;
  } catch (const CLI::CallForHelp&) {
    const auto chosen = program.get_subcommands();
    if (chosen.empty() && !program.remaining().empty()) throw unknown_argument(program, program, "mptune");
    check_global_options(line.options);
    line.body = help_on(text_of(program), chosen.empty() ? "" : chosen.front()->get_name());
    return line;
  } catch (const CLI::ParseError& error) {
    if (!lacks_command(program, error) || asks_for_json(argc, argv)) throw usage_error(program, error);
    check_global_options(line.options);
    line.body = help_without_command(program);
    return line;
  }
  check_global_options(line.options);
  line.defaults = apply_config(*program.get_subcommands().front(), line.options);
  return line;
}

bool asks_for_json(int argc, char** argv) {
  const int count = std::max(1, count_before_marker(argc, argv));
  return std::any_of(argv + 1, argv + count, [](const char* word) { return std::string_view(word) == "--json"; });
}

int report_failure(bool json, const std::string& what, const std::string& where, const std::string& remedy, int exit_code) {
  const std::string line = one_line(what) + (where.empty() ? "" : ": " + one_line(where)) + (remedy.empty() ? "" : "; " + one_line(remedy));
  std::fprintf(stderr, "mptune: %s\n", printable(line).c_str());
  if (json) {
    std::fputs(dump(error_json(one_line(what), one_line(where), one_line(remedy), exit_code)).c_str(), stdout);
    std::fflush(stdout);
  }
  return exit_code;
}

}  // namespace mptune::reports
