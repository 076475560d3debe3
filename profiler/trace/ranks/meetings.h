#pragma once

#include <cstdint>
#include <vector>

#include "profiler/trace/values/communication.h"

namespace mptune::profiler {

/// A communication of one of the recordings.
struct Member {
  int recording = 0;      ///< index into the recordings
  int communication = 0;  ///< index into its communications
  bool operator==(const Member&) const = default;
};

/// A communication as the recordings of all participants hold it: the processes of a collective, or a send and its receive.
struct Meeting {
  Communication::Kind kind = Communication::Kind::collective;  ///< send: a send, then its receive
  std::vector<Member> members;                                 ///< at least two, by recording
  bool symmetric = false;                                      ///< a collective in which each process needs what all others give
};

struct Meetings {
  std::vector<Meeting> all;
  std::vector<std::int64_t> unmatched;                ///< by recording: the partner's recording is there, but holds no counterpart
  std::vector<std::vector<int>> without_counterpart;  ///< by recording: the communications counted in `unmatched`
  std::vector<std::int64_t> alone;                    ///< by recording: no partner's recording is there
  std::vector<std::int64_t> unequal;                  ///< by recording: the counterpart has another size; also counted in `unmatched`
  std::vector<std::int64_t> outside;                  ///< by recording: without counterpart, and not in a step that all recordings have
};

/// Matches the communications of recordings of one job.
/// - Collectives meet by group, operation and sequence number; if that number is not known, by their count among those of their kind in
///   their step, else in the recording.
/// - Sends and receives meet by group, both ranks and order in their step: messages between two processes do not overtake each other. Their
///   sequence numbers do not count, as PyTorch numbers them on each side separately.
/// - In a group of two, the partner of a message is the other member, if the recording does not say it.
/// - Collectives that are not described meet in the group that find_communicators() found, else not at all. Those in a found group ended
///   together.
/// - Communications with different sizes on the two sides do not meet. Sizes of collectives are not compared: they differ by their nature.
/// Requires: different ranks, none below 0.
[[nodiscard]] Meetings find_meetings(const std::vector<RankRecording>& recordings);

}  // namespace mptune::profiler
