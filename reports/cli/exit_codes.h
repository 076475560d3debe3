#pragma once

#include <span>
#include <string>
#include <vector>

#include "profiler/base/error.h"

namespace mptune::reports {

/// What an exit code means to a command.
struct ExitCodeMeaning {
  ExitCode code;
  const char* command;  ///< "" for every command
  const char* meaning;
};

/// By code; what holds for every command first. Help, manual pages and `mptune help exit-codes` print it.
[[nodiscard]] std::span<const ExitCodeMeaning> exit_codes();
/// Rows of a command that say more than what holds for every command; empty: there is no more to say.
[[nodiscard]] std::vector<ExitCodeMeaning> exit_codes_of(const std::string& command);

}  // namespace mptune::reports
