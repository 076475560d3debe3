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

/// Returns all meanings by code, those for every command first. Help, manual pages and `mptune help exit-codes` print it.
[[nodiscard]] std::span<const ExitCodeMeaning> exit_codes();
/// Returns the rows of a command that say more than what holds for every command; empty where there is no more to say.
[[nodiscard]] std::vector<ExitCodeMeaning> exit_codes_of(const std::string& command);

}  // namespace mptune::reports
