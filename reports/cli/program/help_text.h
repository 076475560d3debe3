#pragma once

#include <string>

#include "reports/cli/program/program_text.h"
#include "reports/render/style.h"

namespace mptune::reports {

/// Returns the help of a command, or of the program (`command` is `program.program`). Lines have at most style.width columns, except
/// examples, which stay whole so that they can be pasted.
///
///     Finds the fastest plan by profile, search and measured trials; resumable
///     Usage: mptune tune [OPTIONS] MODEL
///
///     Arguments:
///       MODEL                       a built-in model, such as resnet50, or ...
///
///     Devices:
///       --devices LIST              cpu:0, cpu:0-3, cuda:0 ...
///
///     Example:
///       mptune tune resnet50 --devices cpu:0,cpu:1 --budget 150s
///
///     Exit codes:
///       5  the best plans are too close to tell apart ...
[[nodiscard]] std::string render_help(const ProgramText& program, const CommandText& command, const TextStyle& style);

/// Returns the table of all exit codes.
[[nodiscard]] std::string render_exit_codes(const TextStyle& style);

}  // namespace mptune::reports
