#include <csignal>
#include <exception>
#include <new>

#include "profiler/base/error.h"
#include "reports/cli/program.h"
#include "reports/cli/worker_calls.h"
#include "reports/render/option_names.h"
#include "tuner/live/worker_process.h"

namespace {

using namespace mptune;
using namespace mptune::reports;

Session session_of(const GlobalOptions& options) {
  const TerminalEnvironment environment = environment_of_process();
  return {options, style_of(options, environment), environment.errors_are_terminal && environment.term != "dumb"};
}

int run(int argc, char** argv) {
  const CommandLine line = parse_command_line(argc, argv);
  if (!line.body) return static_cast<int>(ExitCode::done);
  tuner::install_interrupt_handlers();
  start_interrupt_watchdog(line.options.json);
  return line.body(session_of(line.options));
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = asks_for_json(argc, argv);
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on the size of files is an error of writing, not the end of the program
  try {
    return run(argc, argv);
  } catch (const Error& thrown) {
    const Error error = with_option_names(thrown);
    return report_failure(json, error.what(), error.where(), error.remedy(), static_cast<int>(error.code()));
  } catch (const std::bad_alloc&) {
    return report_failure(json, "mptune ran out of memory", "mptune", "free memory, or give fewer devices",
                          static_cast<int>(ExitCode::environment));
  } catch (const std::exception& error) {
    return report_failure(json, error.what(), "mptune", "this is a mistake in mptune: report it with the command line",
                          static_cast<int>(ExitCode::internal));
  }
}
