#pragma once

#include <atomic>
#include <string>

#include "profiler/base/error.h"

namespace mptune::tuner {

/// Returns the number of the signal that asked this process to end, 0 for none. The handlers of install_interrupt_handlers() set it for
/// SIGINT, SIGTERM, SIGHUP and SIGQUIT; a second signal ends the process at once. Whoever watches the processor time sets SIGXCPU before
/// the time is used up, as no time to react is left when the kernel sends it.
[[nodiscard]] std::atomic<int>& interrupt_flag();
void install_interrupt_handlers();

/// What the user reads about an interrupt, and the exit code: interrupted, terminated, or environment for a limit of the processor time.
struct InterruptText {
  std::string what;
  std::string remedy;
  ExitCode code = ExitCode::interrupted;
};

/// Returns the text for the interrupt that the flag names. A limit of the processor time has a remedy of its own, which comes before
/// `remedy`. Requires: the flag is set.
[[nodiscard]] InterruptText interrupt_text(const std::string& remedy);
[[nodiscard]] Error interrupt_error(const std::string& where, const std::string& remedy);

/// Returns the processor time that this process may take (ulimit -t) [s]; infinity for no limit.
[[nodiscard]] double processor_time_limit_s();

}  // namespace mptune::tuner
