#pragma once

#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// Merges two recordings of the same steps: `host`, made on the host's clock, and `gpus`, made by the GPUs' own recorder.
/// `gpus_started` is time 0 of `gpus` on the clock of `host`. Requires: events of both ordered by start; the result's events are, too.
///
/// - Work of devices named "cuda:..." comes from `gpus`, work of all other devices from `host`, as does that of a rank's GPU ("1@cuda:0")
/// that
///   `gpus` does not have.
/// - Devices, names, threads and tags of both become one list each.
/// - `host` may name parts of a GPU ("cuda:0/1of2") where `gpus` names the whole GPU. Work goes to the part that the host launched it for;
///   if that is unknown, to the part that runs the stage in its tag. The recorder's own work goes to the first part.
/// - Work of a GPU takes layer and phase from the host's event during which it was launched, if step, stage, micro-batch and replica agree.
///   It also takes that event's edges from and to other devices. An action on a GPU lasts from its first to its last work.
/// - A copy that both recorded counts once, with the GPU's times. It takes its tag, and an unknown source or destination, from `host`.
/// - A message between GPUs of two ranks ("0@cuda:0", "1@cuda:0") that no GPU recorded as a copy keeps the host's times: NCCL carried it.
///   NCCL's kernels of messages, which wait as well, are left out. One through host memory is two copies, with an edge between them.
/// - Edges between two GPUs come from `gpus`; steps and memory samples from `host`.
/// - Losses are summed. `untagged` and `out_of_window` count events of the result.
[[nodiscard]] Trace merge_traces(const Trace& host, const Trace& gpus, Nanoseconds gpus_started);

}  // namespace mptune::profiler
