#pragma once

#include <string>

#include "profiler/trace/formats/text_input.h"
#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// Reads a timeline of pipelined training in the format of ByteDance's straggler study, gzip or not: a Chrome list. `pid` is the
/// data-parallel rank; the thread's name holds stage and lane ("PP rank 0, TP rank 0, compute").
///
/// Every worker is a device: stage s of replica r is device r * stages + s. Lanes of a device:
///   lane 0           forward, backward, optimizer, host (garbage collection)
///   copy_lane(d)     copies: a send and its receive, from when both sides have started to the end of the receive
///   1 + devices      collectives, from when the last member of their group has started
///
/// Sends and receives are paired by micro-batch if both state it, else the k-th send of a step with the k-th receive. Bytes are unknown: 0.
/// Tags hold step, stage of the model (chunk * stages + s), micro-batch and replica.
/// A step lasts from its first start to its last end over all workers.
///
/// Edges:
///   order    each lane's order; a receive comes after its worker's previous computation in that direction
///   data     computation -> copy -> computation; gathered parameters -> first forward; last backward -> collectives of the whole group;
///            collectives -> optimizer
///
/// If there are several tensor-parallel ranks, only the first is read: they work in lockstep.
/// `quality.unmatched` counts sends and receives without counterpart and edges that would lead from later to earlier events.
/// `quality.dropped` counts operations without stage, step or time.
/// Throws Error: what read_chrome_events throws, no operation of a pipeline, more than 253 workers, longer than 14 months, collectives that
/// could have more than 2^24 edges.
[[nodiscard]] Trace read_pipeline_timeline(const std::string& path);

/// Does the same for text that is already open.
[[nodiscard]] Trace read_pipeline_timeline(TextInput& input);

}  // namespace mptune::profiler
