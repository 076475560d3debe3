#pragma once

#include <string>
#include <vector>

#include "reports/render/json.h"
#include "reports/render/style.h"

namespace mptune::reports {

/// Options that may stand before or after any command.
struct GlobalOptions {
  bool json = false;
  bool quiet = false;
  bool verbose = false;
  std::string color = "auto";
  std::string config = {};  ///< a file of defaults; "" to look for one
  bool no_config = false;
};

/// What decides how text looks. `environment_of_process` reads it from the process; tests make their own.
struct TerminalEnvironment {
  bool output_is_terminal = false;
  bool errors_are_terminal = false;
  int terminal_columns = 0;  ///< 0: not known
  std::string columns, no_color, clicolor_force, term, lc_all, lc_ctype, lang;
};
[[nodiscard]] TerminalEnvironment environment_of_process();
/// Returns the style. Colours depend on --color, else on NO_COLOR, CLICOLOR_FORCE and a terminal that is not dumb; Unicode on the locale's
/// character set. The width is 80 columns where it is not known, else at least 60.
[[nodiscard]] TextStyle style_of(const GlobalOptions& options, const TerminalEnvironment& environment);

/// Where a command's words go: results to stdout, warnings and progress to stderr.
struct Session {
  GlobalOptions options;
  TextStyle style;
  bool live_progress = false;

  /// Prints the result: `text` for people, made under `style`, or `json` as the only object. Texts of other programs in it, and in what
  /// warn() and say() print, reach the terminal as texts, never as control characters. Throws Error (environment) when stdout can't take
  /// it.
  void result(const std::string& text, const planner::Json& json) const;
  void warn(const std::string& text) const;
  /// Prints a line about the start of the command on stderr; nothing under --quiet.
  void say(const std::string& text) const;
};

/// Returns the stem of files named after a model: "transformer" for "transformer:d=256", "libnet" for "build/libnet.so".
[[nodiscard]] std::string model_stem(const std::string& model);

/// Refuses early what could not be written at the end: a missing or read-only folder (usage), a full disk (environment), one of the files
/// that the command reads, an existing file that does not begin with `magic`, unless `force`.
void check_output(const std::string& path, const std::string& magic, bool force, const std::vector<std::string>& inputs);
/// Returns true if something is there that does not begin with `magic`.
[[nodiscard]] bool is_foreign(const std::string& path, const std::string& magic);
/// The first bytes of our SQLite files and of our JSON files.
inline constexpr const char* kSqliteMagic = "SQLite format 3";
inline constexpr const char* kJsonMagic = "{";

/// Writes a text file, complete or not at all. Throws Error, also for one of the files that the command reads.
void write_text_file(const std::string& path, const std::string& text, bool force, const std::vector<std::string>& inputs);

}  // namespace mptune::reports
