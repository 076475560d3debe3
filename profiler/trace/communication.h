#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/trace/trace.h"

namespace mptune::profiler {

/// What one process did with others, as its recording says it: a collective, a send or a receive.
struct Communication {
  enum class Kind : std::uint8_t { collective, send, receive };
  Kind kind = Kind::collective;
  std::string operation;       ///< "allreduce", as the recording has it
  std::string group;           ///< the communicator, in one form for all its processes; "": not known
  std::vector<int> members;    ///< ranks of the group; empty: not known
  int peer = -1;               ///< rank of the other process of a send or receive; -1: not known
  std::int64_t sequence = -1;  ///< number that the group gave it; -1: not known
  int step = -1;               ///< of the thread that launched it; -1: none
  std::int64_t bytes = 0;      ///< that this process gave or took; 0: not known
  int event = -1;              ///< index into Trace::events: the kernel; several communications may share one
  bool operator==(const Communication&) const = default;
};

/// The recording of one process of a job.
struct RankRecording {
  std::string file;
  int rank = -1;  ///< as the file says it; -1: it does not
  int ranks = 0;  ///< of the job; 0: not known
  Trace trace;
  std::vector<Communication> communications;  ///< in the order in which they were launched
};

}  // namespace mptune::profiler
