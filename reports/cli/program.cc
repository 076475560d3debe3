#include "reports/cli/program.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string_view>

#include "profiler/base/error.h"
#include "profiler/base/printable.h"
#include "profiler/base/text.h"
#include "reports/cli/help_text.h"

namespace mptune::reports {
namespace {

constexpr int kMostHelpColumns = 120;

/// Edit distance: insertions, deletions and replacements that turn one word into the other.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

/// The nearest of `words`; "" if none is close enough to be a typing mistake.
std::string nearest(const std::string& word, const std::vector<std::string>& words) {
  std::string best;
  std::size_t least = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : words) {
    if (const std::size_t edits = distance(word, candidate); edits < least) {
      least = edits;
      best = candidate;
    }
  }
  return best;
}

std::vector<std::string> words_of(const CLI::App& command) {
  std::vector<std::string> words;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  for (const CLI::App* sub : command.get_subcommands([](const CLI::App*) { return true; })) words.push_back(sub->get_name());
  return words;
}

/// What CLI11 could not place: an unknown command or option, or one argument too many.
Error unknown_argument(const CLI::App& program, const CLI::App& command, const std::string& where) {
  std::vector<std::string> remaining = command.remaining();
  if (remaining.empty()) remaining = program.remaining(true);
  const std::string word = remaining.empty() ? "" : remaining.front();
  const bool option = !word.empty() && word.front() == '-';
  const bool no_command = &command == &program;
  const std::string near = nearest(word.substr(0, word.find('=')), words_of(command));
  const std::string what = option       ? "there is no option '" + word + "'"
                           : no_command ? "there is no command '" + word + "'"
                                        : "'" + word + "' is one argument too many";
  return {what, where, (near.empty() ? "" : "did you mean " + near + "? ") + "see " + where + " --help"};
}

Error usage_error(const CLI::App& program, const CLI::ParseError& error) {
  const auto chosen = program.get_subcommands();
  const CLI::App& command = chosen.empty() ? program : *chosen.front();
  const std::string where = chosen.empty() ? "mptune" : "mptune " + command.get_name();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) return unknown_argument(program, command, where);
  if (chosen.empty() && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    if (!program.remaining().empty()) return unknown_argument(program, command, where);
    return {"no command is given", where, "see mptune --help"};
  }
  return {one_line(error.what()), where, "see " + where + " --help"};
}

/// Help as wide as the terminal, and no wider than reads well.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    const int columns = std::min(kMostHelpColumns, style_of({}, environment_of_process()).width);
    return wrap_help(Formatter::make_help(app, std::move(name), mode), static_cast<int>(get_column_width()), columns);
  }
};

void add_global_options(CLI::App& program, GlobalOptions& options) {
  program.add_flag("--json", options.json, "print exactly one JSON object on stdout");
  program.add_flag("-q,--quiet", options.quiet, "print no progress");
  program.add_flag("-v,--verbose", options.verbose, "print a line for each part of the work as it begins");
  program.add_option("--color", options.color, "colours: auto, always or never")->type_name("WHEN");
}

void check_global_options(const GlobalOptions& options) {
  if (options.color != "auto" && options.color != "always" && options.color != "never")
    throw Error("invalid colour setting '" + options.color + "'", "--color", "use auto, always or never");
  if (options.quiet && options.verbose) throw Error("quiet and verbose exclude each other", "-v", "leave -q or -v out");
}

/// Arguments before `--`, itself not among them.
int count_before_marker(int argc, char** argv) {
  return static_cast<int>(std::find(argv, argv + argc, std::string_view("--")) - argv);
}

/// True for `mptune profile -- ...`.
bool records_program(int argc, char** argv) {
  const int count = count_before_marker(argc, argv);
  for (int i = 1; i < count && count < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--color")
      ++i;
    else if (!word.starts_with('-'))
      return word == "profile";
  }
  return false;
}

}  // namespace

CommandLine parse_command_line(int argc, char** argv) {
  CommandLine line;
  CLI::App program("Finds the fastest way to split the training step of a model over several devices", "mptune");
  program.set_version_flag("--version", "mptune " MPTUNE_VERSION);
  program.formatter(std::make_shared<HelpFormatter>());
  program.require_subcommand(1);
  program.fallthrough();
  program.footer(
      "Example:\n  mptune tune resnet50 --input 3x64x64 --batch 32 --devices cpu:0,cpu:1 --budget 150s\n\nmptune COMMAND --help tells "
      "more.");
  add_global_options(program, line.options);
  if (records_program(argc, argv)) {
    const int count = count_before_marker(argc, argv);
    add_profile_program_command(program, line.body, {argv + count + 1, argv + argc});
    argc = count;
  } else {
    add_profile_command(program, line.body);
  }
  for (const auto add : {add_plan_command, add_tune_command, add_run_command, add_check_command, add_simulate_command, add_compare_command,
                         add_report_command, add_import_command, add_export_command, add_models_command, add_doctor_command})
    add(program, line.body);
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& success) {
    if (program.get_subcommands().empty() && !program.remaining().empty()) throw unknown_argument(program, program, "mptune");
    // Help or version: CLI11 prints them.
    line.body = {};
    program.exit(success);
    return line;
  } catch (const CLI::ParseError& error) {
    throw usage_error(program, error);
  }
  check_global_options(line.options);
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
