#include "reports/cli/program/completion.h"

#include <algorithm>

namespace mptune::reports {

const std::vector<CompletionShell>& completion_shells() {
  static const std::vector<CompletionShell> kShells{{"bash", "bash-completion/completions/mptune", bash_completion},
                                                    {"zsh", "zsh/site-functions/_mptune", zsh_completion},
                                                    {"fish", "fish/vendor_completions.d/mptune.fish", fish_completion}};
  return kShells;
}

std::string shell_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string first_clause(const std::string& description) {
  std::size_t end = std::string::npos;
  for (const char* mark : {"; ", ": ", " ("}) end = std::min(end, description.find(mark));
  return description.substr(0, end);
}

}  // namespace mptune::reports
