#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// What one process did with others according to its recording: a collective, a send or a receive.
struct Communication {
  enum class Kind : std::uint8_t { collective, send, receive };
  Kind kind = Kind::collective;
  std::string operation;       ///< "allreduce", as the recording has it
  std::string group;           ///< the communicator, in one form for all its processes; "": not known
  std::vector<int> members;    ///< ranks of the group; empty: not known
  int peer = -1;               ///< rank of the other process of a send or receive; -1: not known
  std::int64_t sequence = -1;  ///< number that the group gave it; -1: not known
  int step = -1;               ///< of the thread that launched it; -1: none
  std::int64_t bytes = 0;      ///< bytes that this process sent or received; 0: not known
  int event = -1;              ///< index into Trace::events: the kernel; several communications may share one
  bool described = true;       ///< false: the recording does not say its group. find_communicators() looks for it
  int own = -1;                ///< of a message that is not described: number of this process in the group; -1: not known
  bool operator==(const Communication&) const = default;
};

/// The recording of one process of a job.
struct RankRecording {
  std::string file;
  int rank = -1;  ///< as the file says it; -1: it does not
  int ranks = 0;  ///< of the job; 0: not known
  Trace trace;
  std::string merged_file = {};  ///< that holds this recording and others, which count from the same moment; "": none
  /// Time 0 of the trace in the file, if neither of them says the time of day. Files of one job may count from the same moment.
  std::optional<Nanoseconds> origin = std::nullopt;
  std::vector<Communication> communications;  ///< in the order in which they were launched
};

}  // namespace mptune::profiler
