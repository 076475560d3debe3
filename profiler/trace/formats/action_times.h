#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/trace/formats/text_input.h"
#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// A forward or backward of one micro-batch on one rank of a pipeline, as a timer around it recorded it.
struct TimedAction {
  EventKind kind = EventKind::forward;  ///< forward, backward or backward_weight
  int rank = 0;
  int iteration = 0;
  int nth = 0;          ///< how many actions of its kind the rank ran before in the iteration
  int microbatch = -1;  ///< -1: the file does not say
  int chunk = -1;       ///< model chunk (virtual stage) of the rank; -1: the file does not say
  Nanoseconds start{0};
  Nanoseconds end{0};  ///< both since the rank began the iteration
};

/// The times of a pipeline's actions, as files hold them.
struct ActionTimes {
  std::vector<TimedAction> actions;
  int ranks = 0;                         ///< ranks of the pipeline, including those that have no file
  int chunks = 0;                        ///< model chunks of each rank; 0: not known
  int microbatches = 0;                  ///< of an iteration; 0: not known
  std::vector<std::int64_t> peak_bytes;  ///< by rank; 0: not known
  std::string where;                     ///< where the times come from, for messages
};

/// A trace of the actions, and the ranks that the files lack.
struct ActionTimeline {
  Trace trace;
  std::vector<int> missing;
};

/// Reads when each rank of a pipeline began and ended its forwards and backwards, in milliseconds, as Primus writes it with --dump_pp_data
/// (AMD-AGI/Primus, primus/backends/megatron/core/pipeline_parallel/pp_visualizer.py): a folder, or a part of its files.
///
///     pp_rank_3.json   {"1": {"total": 75.0, "memory": 84.3, "fwd_start": [0.05, ...], "fwd_end": [...], "fwd_minibatch": [...],
///                             "fwd_chunk": [...], "bwd_start": ..., "wgrad_start": ...}, "2": ...}          by iteration
///     config.json      {"pp_size": 8, "vp_size": 1, "num_mbs": 16}     "vpp_size" and "micro_batches" in files of its simulator
///
/// Lists of micro-batches and chunks, the weight gradients and config.json may be absent; config.json is read if it lies beside the first
/// file. One file may hold all ranks: as a list with an object per rank, as an object with a member per rank and keys like "rank 3", or by
/// iteration and then by rank. Keys that are numbers only are ranks if they count from 0 and the file's name is not that of a rank.
///
/// A table with the same content is read, too. Columns may come in any order; nth, microbatch, chunk, iteration and run may be absent;
/// `kind` is fwd, bwd or wgrad:
///
///     run,iteration,rank,kind,nth,start_ms,end_ms
///     pp8,1,0,fwd,0,0.0495,1666.2584
///
/// - Every rank is a device, every iteration a step; iterations follow one another without a pause. A rank with weight gradients has split
///   backwards: its backward computes input gradients only.
/// - Micro-batches that are not stated follow Megatron-LM's order: groups of as many as there are ranks pass through chunk after chunk.
///   Where the number of chunks is not stated, it is the least under which dependencies explain when actions start.
/// - Two chunks lie on the ranks as in a loop (0 1 2 0 1 2), or as in a V (0 1 2 2 1 0), whichever the times contradict less.
/// - Edges: the order of each rank; a forward follows the forward of the stage before, a backward follows the backward of the next stage,
///   the last stage's backward follows its forward; weight gradients follow their backward in the order of their rank. Weight gradients
///   without a micro-batch belong to the backward in the same place of its list.
/// - Clocks: each rank's clock is moved later, iteration by iteration, by the least that lets no dependency end after what needs it. If no
///   movement does that, none is moved.
/// - A forward and a backward with the same start and end were timed as one: each gets a half.
///
/// `quality.unmatched` counts actions whose dependency is missing, `quality.dropped` those of iterations that some rank lacks.
/// Throws Error: unreadable, not this format, a list of another length, a time that is not finite, negative length or beyond 14 months,
/// more than 4096 ranks or 4 million actions, tables of several runs, two files of one rank.
[[nodiscard]] ActionTimeline read_action_timeline(const std::vector<std::string>& paths);

/// True for a folder with these files, and for a file that begins like one of them; false if it can't be read.
[[nodiscard]] bool holds_action_times(const std::string& path);

/// Reads the JSON of one file, a part of read_action_timeline(); `rank` is the one in the file's name. -1: the name has none, and a file of
/// one rank is of rank 0.
[[nodiscard]] ActionTimes read_action_json(TextInput& input, int rank);
[[nodiscard]] ActionTimes read_action_table(TextInput& input);
/// Requires: ranks in [0, times.ranks).
[[nodiscard]] ActionTimeline timeline_of(ActionTimes times);

}  // namespace mptune::profiler
