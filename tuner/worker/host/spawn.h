#pragma once

#include <sys/types.h>

#include <string>

namespace mptune::tuner {

/// A started worker and our ends of its pipes. All descriptors are closed on exec; the caller owns them.
struct Spawned {
  pid_t pid = -1;       ///< also the number of its process group
  int request_fd = -1;  ///< the request is written to it; does not block
  int reply_fd = -1;    ///< replies are read from it; does not block
  int stderr_fd = -1;   ///< its stdout and stderr; does not block
};

/// Runs `program --request-fd N --reply-fd M --activity-fd K` in a process group of its own that dies with the calling thread. The
/// environment is ours without the variables that pin OpenMP threads or set their number. `activity_fd`: the descriptor of an
/// ActivityBoard.
/// Throws Error (environment) if it can't be started.
[[nodiscard]] Spawned spawn_worker(const std::string& program, int activity_fd);

}  // namespace mptune::tuner
