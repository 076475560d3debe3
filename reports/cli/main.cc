#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <filesystem>
#include <new>
#include <system_error>

#include "profiler/base/error.h"
#include "profiler/base/units.h"
#include "reports/cli/program/interrupt_watchdog.h"
#include "reports/cli/program/program.h"
#include "reports/render/option_names.h"
#include "tuner/worker/host/interrupt.h"

namespace {

using namespace mptune;
using namespace mptune::reports;

Session session_of(const GlobalOptions& options) {
  const TerminalEnvironment environment = environment_of_process();
  return {options, style_of(options, environment), environment.errors_are_terminal && environment.term != "dumb"};
}

// The number of a closed stream would be given to the next file that is opened, and what is printed would go into that file. Writing to the
// reserved streams fails.
void reserve_standard_streams() {
  int file = 0;
  while (file >= 0 && file <= STDERR_FILENO) file = ::open("/dev/null", O_RDONLY);
  if (file > STDERR_FILENO) ::close(file);
}

int report_path(bool json, const std::filesystem::filesystem_error& error) {
  const bool too_long = error.code() == std::errc::filename_too_long;
  return report_failure(
      json, too_long ? "the name is too long" : error.code().message(), error.path1().empty() ? "mptune" : error.path1().string(),
      too_long ? "choose a shorter name, or a folder with a shorter path" : "check the path, its permissions and the disk",
      static_cast<int>(too_long ? ExitCode::usage : ExitCode::environment));
}

// With a smaller stack the program would crash without a word.
void require_stack() {
  constexpr rlim_t kLeast = rlim_t{256} << 10;
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < kLeast)
    throw Error("the stack is limited to " + format_bytes(static_cast<std::int64_t>(limit.rlim_cur)), "ulimit -s",
                "raise the limit: ulimit -s 8192", ExitCode::environment);
}

int run(int argc, char** argv) {
  require_stack();
  const CommandLine line = parse_command_line(argc, argv);
  tuner::install_interrupt_handlers();
  start_interrupt_watchdog(line.options.json);
  const Session session = session_of(line.options);
  if (const std::string used = text_of(line.defaults); !used.empty()) session.say(used);
  try {
    return line.body(session);
  } catch (const Error& error) {
    throw with_places(with_option_names(error), line.defaults);
  }
}

}  // namespace

int main(int argc, char** argv) {
  reserve_standard_streams();
  const bool json = asks_for_json(argc, argv);
  std::signal(SIGXFSZ, SIG_IGN);  // at the limit on the size of files, writing fails, and the program goes on
  try {
    return run(argc, argv);
  } catch (const Error& thrown) {
    const Error error = with_option_names(thrown);
    return report_failure(json, error.problem(), error.where(), error.remedy(), static_cast<int>(error.code()));
  } catch (const std::bad_alloc&) {
    return report_failure(json, "mptune ran out of memory", "mptune", "free memory, or give fewer devices",
                          static_cast<int>(ExitCode::environment));
  } catch (const std::filesystem::filesystem_error& error) {
    return report_path(json, error);
  } catch (const std::system_error& error) {
    return report_failure(json, std::string("the system refused: ") + error.what(), "mptune",
                          "free memory and processes, or raise their limits (ulimit -a)", static_cast<int>(ExitCode::environment));
  } catch (const std::exception& error) {
    return report_failure(json, error.what(), "mptune", "this is a mistake in mptune: report it with the command line",
                          static_cast<int>(ExitCode::internal));
  }
}
