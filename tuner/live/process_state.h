#pragma once

#include <sys/types.h>

#include <optional>

namespace mptune::tuner {

/// What /proc/PID/stat says of a process.
struct ProcessState {
  char state = ' ';  ///< 'T' stopped by a signal, 't' by a debugger, 'Z' ended but not waited for
  pid_t parent = -1;
};

/// Empty where the process is gone, or its file is none that this reader knows.
[[nodiscard]] std::optional<ProcessState> state_of_process(pid_t process);

}  // namespace mptune::tuner
