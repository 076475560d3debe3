#pragma once

#include <string>
#include <vector>

#include "reports/cli/program/program_text.h"

namespace mptune::reports {

/// Return scripts that complete commands, options and their values in a shell. They hold all words and never call mptune. They are ASCII.
[[nodiscard]] std::string bash_completion(const ProgramText& program);
[[nodiscard]] std::string zsh_completion(const ProgramText& program);
[[nodiscard]] std::string fish_completion(const ProgramText& program);

/// A shell: where its scripts are looked for below `share`, and who writes one.
struct CompletionShell {
  const char* name;
  const char* path;
  std::string (*script)(const ProgramText& program);
};
[[nodiscard]] const std::vector<CompletionShell>& completion_shells();

/// Returns `text` quoted as one word of bash and zsh.
[[nodiscard]] std::string shell_quoted(const std::string& text);
/// Returns the first clause of a description, which completion shows beside a word.
[[nodiscard]] std::string first_clause(const std::string& description);

}  // namespace mptune::reports
