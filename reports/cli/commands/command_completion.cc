#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "profiler/base/error.h"
#include "profiler/base/nearest_word.h"
#include "profiler/base/text.h"
#include "reports/cli/commands/commands.h"
#include "reports/cli/program/completion.h"
#include "reports/cli/program/option_values.h"

namespace mptune::reports {
namespace {

std::vector<std::string> shell_names() {
  std::vector<std::string> names;
  for (const CompletionShell& shell : completion_shells()) names.emplace_back(shell.name);
  return names;
}

std::string script_for(const std::string& name, const ProgramText& program) {
  const auto found = std::ranges::find(completion_shells(), name, &CompletionShell::name);
  if (found == completion_shells().end())
    throw Error("there is no completion for '" + name + "'", "completion", did_you_mean(name, shell_names(), "use bash, zsh or fish"));
  return found->script(program);
}

}  // namespace

void add_completion_command(CLI::App& program, CommandBody& chosen) {
  auto shell = std::make_shared<std::string>();
  CLI::App* app = program.add_subcommand("completion", "Prints a script that completes commands, options and their values in a shell");
  CLI::Option* option = app->add_option("SHELL", *shell, "bash, zsh or fish")->required();
  offer_values(*option, shell_names());
  app->footer(
      "An installed mptune has these scripts where the shells look for them (share/bash-completion/completions and so on).\n\n"
      "Example:\n  mptune completion bash > ~/.local/share/bash-completion/completions/mptune\n"
      "  mptune completion zsh > ~/.zfunc/_mptune        # in a folder of $fpath\n"
      "  mptune completion fish > ~/.config/fish/completions/mptune.fish");
  app->callback([shell, &program, &chosen] {
    const std::string script = script_for(*shell, text_of(program));
    chosen = [script, name = *shell](const Session& session) {
      planner::Json json = result_of("completion");
      json["shell"] = name;
      json["script"] = script;
      session.result(script, json);
      return 0;
    };
  });
}

}  // namespace mptune::reports
