#pragma once

#include <string>

#include "reports/cli/program/program_text.h"

namespace mptune::reports {

/// Returns the manual page of a command, or of the program (`command` is `program.program`), in the macros of man(7), as ASCII.
[[nodiscard]] std::string manual_page(const ProgramText& program, const CommandText& command);
/// Returns "mptune-tune"; "mptune" for the program itself.
[[nodiscard]] std::string page_name(const CommandText& command);

}  // namespace mptune::reports
