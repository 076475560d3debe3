#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace mptune {

/// Exit codes of the programs (docs/commands.md).
enum class ExitCode : int {
  done = 0,
  internal = 1,
  usage = 2,
  infeasible = 3,
  differs = 4,  ///< compare: B is slower; check: the pieces differ from the whole
  inconclusive = 5,
  no_result = 6,
  environment = 7,
  interrupted = 130,
  terminated = 143,
};

/// An error that ends a command: a user's mistake, or a broken machine or file.
/// A plan that fails while it is tried is an Outcome instead.
/// what() is the whole error in one line, as main prints it once: "problem: where; remedy". A part that is empty is left out.
class Error : public std::runtime_error {
 public:
  /// The `problem`, on `where` (a file, an option, a device), and the `remedy`: one clause each, no full stop.
  Error(std::string problem, std::string where, std::string remedy, ExitCode code = ExitCode::usage)
      : std::runtime_error(line_of(problem, where, remedy)),
        problem_(std::move(problem)),
        where_(std::move(where)),
        remedy_(std::move(remedy)),
        code_(code) {}

  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] const std::string& where() const { return where_; }
  [[nodiscard]] const std::string& remedy() const { return remedy_; }
  [[nodiscard]] ExitCode code() const { return code_; }

 private:
  static std::string line_of(std::string line, const std::string& where, const std::string& remedy) {
    if (!where.empty()) line.append(": ").append(where);
    if (!remedy.empty()) line.append("; ").append(remedy);
    return line;
  }

  std::string problem_;
  std::string where_;
  std::string remedy_;
  ExitCode code_;
};

}  // namespace mptune
