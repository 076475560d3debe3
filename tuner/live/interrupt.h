#pragma once

#include <atomic>
#include <string>

#include "profiler/base/error.h"

namespace mptune::tuner {

/// Number of the signal that asked this process to end, 0: none. SIGINT, SIGTERM, SIGHUP and SIGQUIT: set by the handlers that
/// install_interrupt_handlers sets; a second signal ends the process at once. SIGXCPU: whoever watches the processor time sets it before
/// the time is used up, as there is no time left to react when the kernel does.
[[nodiscard]] std::atomic<int>& interrupt_flag();
void install_interrupt_handlers();

/// What the user reads of an interrupt, and the exit code: interrupted, terminated, or environment for a limit of the processor time.
struct InterruptText {
  std::string what;
  std::string remedy;
  ExitCode code = ExitCode::interrupted;
};

/// Of the interrupt that the flag says. A limit of the processor time has a remedy of its own, which comes before this one. Requires: the
/// flag is set.
[[nodiscard]] InterruptText interrupt_text(const std::string& remedy);
[[nodiscard]] Error interrupt_error(const std::string& where, const std::string& remedy);

/// Processor time that this process may take (ulimit -t) [s]; infinity: any.
[[nodiscard]] double processor_time_limit_s();

}  // namespace mptune::tuner
