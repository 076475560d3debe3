#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reports/cli/program/program_text.h"
#include "reports/cli/program/session.h"

namespace CLI {
class App;
}

namespace mptune::reports {

/// What the chosen command does; returns the exit code.
using CommandBody = std::function<int(const Session&)>;

/// Each function adds its subcommand to the program; parsing the subcommand sets `chosen`.
void add_profile_command(CLI::App& program, CommandBody& chosen);
/// Returns the help on `mptune profile -- COMMAND`, for both forms of the command.
[[nodiscard]] std::string program_recording_help();
/// Adds `mptune profile -- words`, the form of `profile` that records a program.
void add_profile_program_command(CLI::App& program, CommandBody& chosen, const std::vector<std::string>& words);
void add_plan_command(CLI::App& program, CommandBody& chosen);
void add_tune_command(CLI::App& program, CommandBody& chosen);
void add_run_command(CLI::App& program, CommandBody& chosen);
void add_check_command(CLI::App& program, CommandBody& chosen);
void add_simulate_command(CLI::App& program, CommandBody& chosen);
void add_compare_command(CLI::App& program, CommandBody& chosen);
void add_report_command(CLI::App& program, CommandBody& chosen);
void add_import_command(CLI::App& program, CommandBody& chosen);
void add_export_command(CLI::App& program, CommandBody& chosen);
void add_models_command(CLI::App& program, CommandBody& chosen);
void add_doctor_command(CLI::App& program, CommandBody& chosen);
void add_completion_command(CLI::App& program, CommandBody& chosen);
/// Call it after all others: it knows the commands that were added before.
void add_help_command(CLI::App& program, CommandBody& chosen);
/// Returns what `mptune COMMAND --help` does. `command`: its name, "" for the program.
[[nodiscard]] CommandBody help_on(const ProgramText& program, const std::string& command);

}  // namespace mptune::reports
