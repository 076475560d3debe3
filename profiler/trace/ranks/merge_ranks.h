#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/trace/ranks/clocks.h"
#include "profiler/trace/values/communication.h"
#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// What became of one recording in a merged trace.
struct MergedRank {
  int rank = -1;
  bool rank_assumed = false;  ///< the file did not say it: it is the lowest that no other recording has, in the order of the files
  std::string file = {};
  AlignedClock clock = {};
  /// How much its clock must be moved at the start of its recording to be the clock of the lowest rank. If a recording does not know the
  /// time of day: how much the times since its start must be moved.
  Nanoseconds clock_offset{0};
  std::int64_t communications = 0;
  std::int64_t unmatched = 0;  ///< communications whose partner's recording is there, but holds no counterpart, in a step that all have
  std::int64_t unequal = 0;    ///< unmatched ones whose counterpart has another size
  std::int64_t alone = 0;      ///< communications whose partners have no recording
  std::int64_t outside = 0;    ///< communications without counterpart, not in a step, or the time, that all recordings have
};

struct MergedRanks {
  Trace trace;
  std::vector<MergedRank> ranks;  ///< by rank
  std::vector<int> missing;       ///< ranks of the job, or of a group that took part, without a recording
  Nanoseconds with_missing{0};    ///< time of all devices, after the last known arrival, in collectives with missing members: how much of
                                  ///< it is waiting for these members is not known
  Nanoseconds common_window{0};   ///< of recordings that have no steps and cover different times: what all of them hold; else 0
};

/// Merges the recordings of the processes of one job, one per rank, into one trace on the clock of the lowest rank.
///
/// Devices are named RANK@DEVICE. What processes did together starts when the last of them has reached it: until then the others waited.
///
///     recorded   rank 0  [ compute ][ all-reduce, waiting          ]     merged   [ compute ]   idle     [ all-reduce ]
///                rank 1  [ compute           ][ all-reduce         ]              [ compute           ]  [ all-reduce ]
///
/// - A send and its receive become one copy, from when both have begun to the end of the receive. A kernel that only sends and receives,
///   and all of whose messages meet, is gone then; any other keeps its time.
/// - An event of no length ("arrival") marks when a process reached a collective. Edges: last computation before it -> arrival -> the
///   collective on every other process. A message follows its sender's last computation.
/// - A computation waits for a communication if its device was idle when that ended.
/// - Tags: the step; the stage, in the order in which the ranks that exchange messages first receive one; the replica, by lowest rank; in
///   place of the micro-batch, how many computations between communications the device had before in the step.
/// - If there are two recordings, a message that does not name its partner goes to the other one.
/// - NCCL kernels that no description belongs to communicate as well: with whom is found from what the recordings have in common
///   (communicators.h), or not known.
/// - Steps are those that all recordings have; each lasts from its first start to its last end. Recordings without steps that cover
///   different times have one: what all of them hold (common_window.h).
/// - `quality.unmatched` also counts communications without counterpart whose partner's recording is there, `quality.cut_off` those among
///   them that are not of a step, or of the time, that all recordings have. `quality.unmatched_ns` is the time in the steps that devices
///   spend in kernels of communications without counterpart, whether a recording is missing or not, and in no computation.
///
/// Throws Error (usage): two recordings of one rank, more than 4096 devices together.
[[nodiscard]] MergedRanks merge_ranks(std::vector<RankRecording> recordings);

}  // namespace mptune::profiler
