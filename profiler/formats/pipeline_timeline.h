#pragma once

#include <string>

#include "mptune/profiler/formats/text_input.h"
#include "mptune/profiler/trace/trace.h"

namespace mptune {

/// Reads a timeline of pipelined training as ByteDance's straggler study publishes it: a Chrome list, `pid` the data-parallel rank, stage
/// and lane in the thread's name ("PP rank 0, TP rank 0, compute"), gzip or not.
///
/// Every worker is a device: stage s of replica r is device r * stages + s, so one trace holds all replicas of a step side by side.
///   lane 0                forward, backward, optimizer, host (garbage collection)
///   copy_lane(d)          a send and its receive are one copy, from where both sides are there to the end of the receive
///   1 + devices           collectives, from where the last of their group is there
/// The k-th send meets the k-th receive of the step, or where both state their micro-batches, its own. Bytes are not known: 0.
/// Tags hold step, stage (of the model: chunk * stages + s), micro-batch and replica. A step's window is from its first start to its last
/// end over all workers. Edges say what had to end first, which is less than what happened to end first:
///   order    lanes in their order; a receive after its worker's previous computation in that direction
///   data     computation -> copy -> computation; parameters -> first forward; last backward -> collectives, of the whole group ->
///   optimizer
/// Of several tensor-parallel ranks the first is read: they work in lockstep. Unmatched sends and receives are counted in
/// `quality.unmatched`, and so are the edges above that would lead from later to earlier events: what they join are no counterparts, by the
/// file's own times. Operations without stage, step or time are counted in `quality.dropped`.
/// Throws Error: what read_chrome_events throws, no operation of a pipeline, more than 253 workers, longer than 14 months, collectives that
/// could make more than 2^24 edges.
[[nodiscard]] Trace read_pipeline_timeline(const std::string& path);

/// The same of text already at hand.
[[nodiscard]] Trace read_pipeline_timeline(TextInput& input);

}  // namespace mptune
