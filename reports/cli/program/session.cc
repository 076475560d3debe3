#include "reports/cli/program/session.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "profiler/base/error.h"
#include "profiler/base/new_file.h"
#include "profiler/base/printable.h"
#include "profiler/base/shell_command.h"
#include "profiler/base/text.h"
#include "profiler/trace/values/model_text.h"
#include "reports/cli/program/interrupt_watchdog.h"

namespace mptune::reports {
namespace {

constexpr int kUsualColumns = 80;
constexpr int kLeastColumns = 60;
constexpr int kMostColumns = 200;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool says_utf8(const TerminalEnvironment& environment) {
  // The first variable that is set counts, as for setlocale, which would need the locale's files to be installed.
  std::string locale = !environment.lc_all.empty()     ? environment.lc_all
                       : !environment.lc_ctype.empty() ? environment.lc_ctype
                                                       : environment.lang;
  std::ranges::transform(locale, locale.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
}

bool wants_color(const GlobalOptions& options, const TerminalEnvironment& environment) {
  if (options.color != "auto") return options.color == "always";
  if (!environment.no_color.empty()) return false;
  if (!environment.clicolor_force.empty() && environment.clicolor_force != "0") return true;
  return environment.output_is_terminal && !environment.term.empty() && environment.term != "dumb";
}

}  // namespace

TerminalEnvironment environment_of_process() {
  TerminalEnvironment environment;
  environment.output_is_terminal = isatty(STDOUT_FILENO) != 0;
  environment.errors_are_terminal = isatty(STDERR_FILENO) != 0;
  winsize size{};
  if (environment.output_is_terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) environment.terminal_columns = size.ws_col;
  environment.columns = variable("COLUMNS");
  environment.no_color = variable("NO_COLOR");
  environment.clicolor_force = variable("CLICOLOR_FORCE");
  environment.term = variable("TERM");
  environment.lc_all = variable("LC_ALL");
  environment.lc_ctype = variable("LC_CTYPE");
  environment.lang = variable("LANG");
  return environment;
}

TextStyle style_of(const GlobalOptions& options, const TerminalEnvironment& environment) {
  int columns = std::atoi(environment.columns.c_str());
  columns = columns > 0 ? columns : environment.terminal_columns > 0 ? environment.terminal_columns : kUsualColumns;
  return {.width = std::clamp(columns, kLeastColumns, kMostColumns),
          .unicode = says_utf8(environment),
          .color = wants_color(options, environment),
          .mark = std::random_device{}() | 1U};
}

void Session::result(const std::string& text, const planner::Json& json) const {
  const std::string out = options.json ? dump(json) : finished(style, text);
  begin_result();
  if (std::fwrite(out.data(), 1, out.size(), stdout) != out.size() || std::fflush(stdout) != 0) {
    throw Error(std::string("the result could not be written (") + std::strerror(errno) + ")", "standard output", "free some space",
                ExitCode::environment);
  }
  end_result();
}

void Session::warn(const std::string& text) const {
  std::fprintf(stderr, "mptune: warning: %s\n", printable(one_line(text)).c_str());
}

void Session::say(const std::string& text) const {
  if (!options.quiet) std::fprintf(stderr, "mptune: %s\n", printable(one_line(text)).c_str());
}

std::string model_stem(const std::string& model) {
  return parse_model_text(model).stem;
}

bool is_foreign(const std::string& path, const std::string& magic) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored) || is_written_directly(path)) return false;
  std::ifstream file(path, std::ios::binary);
  std::string begin(magic.size(), '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return begin != magic;
}

void check_output(const std::string& path, const std::string& magic, bool force, const std::vector<std::string>& inputs) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) throw Error("this is a folder", path, "name a file with -o");
  require_other_than(path, inputs);
  if (magic == kSqliteMagic) require_path_for_sqlite(path);
  if (!force && is_foreign(path, magic))
    throw Error("the file exists and was not written by mptune", path, "name another with -o, or add --force");
  if (is_written_directly(path)) {
    if (access(path.c_str(), W_OK) != 0) throw write_error(path, errno);
    return;
  }
  const std::string probe = behind_links(path) + ".probe-" + std::to_string(getpid());
  const int descriptor = open(probe.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (descriptor < 0) throw write_error(path, errno);
  // On a full disk an empty file can be created, but not written.
  const bool written = write(descriptor, "x", 1) == 1;
  const int number = errno;
  close(descriptor);
  unlink(probe.c_str());
  if (!written) throw write_error(path, number);
}

void write_text_file(const std::string& path, const std::string& text, bool force, const std::vector<std::string>& inputs) {
  require_other_than(path, inputs);
  std::error_code failed;
  if (std::filesystem::exists(path, failed) && !is_written_directly(path) && !force)
    throw Error("the file exists", path, "name another with -o, or add --force");
  NewFile file(path);
  file << text;
  file.commit();
}

}  // namespace mptune::reports
