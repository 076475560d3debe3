#pragma once

#include <sys/types.h>

#include <optional>

namespace mptune::tuner {

/// What /proc/PID/stat says of a process.
struct ProcessState {
  char state = ' ';  ///< 'T' stopped by a signal, 't' by a debugger, 'Z' ended but not waited for
  pid_t parent = -1;
};

/// Returns the state of a process. Empty where the process is gone, or its file has a form that this reader does not know.
[[nodiscard]] std::optional<ProcessState> state_of_process(pid_t process);

}  // namespace mptune::tuner
