#pragma once

#include <string>

#include "reports/cli/commands/commands.h"
#include "reports/cli/program/config_file.h"
#include "reports/cli/program/session.h"

namespace mptune::reports {

/// What a command line asks for.
struct CommandLine {
  GlobalOptions options;
  CommandBody body;
  UsedDefaults defaults;
};

/// Parses the command line, and reads defaults (config_file.h). Throws Error (usage), one line, for everything that is wrong.
[[nodiscard]] CommandLine parse_command_line(int argc, char** argv);
/// Returns true if `--json` stands among the arguments: failures of parsing are then JSON, too.
[[nodiscard]] bool asks_for_json(int argc, char** argv);
/// Prints "mptune: what: where; remedy" on stderr and, under --json, the object on stdout. Returns the exit code.
int report_failure(bool json, const std::string& what, const std::string& where, const std::string& remedy, int exit_code);

}  // namespace mptune::reports
