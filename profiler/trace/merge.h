#pragma once

#include "mptune/profiler/trace/trace.h"

namespace mptune {

/// One recording out of two of the same steps: by the host's clock `host`, which saw GPUs only being given work, and by the GPUs' own
/// recorder `gpus`, whose time 0 is `gpus_started` in `host`.
///
/// Of the devices named "cuda:..." the work comes from `gpus`, of all others from `host`; devices, names, threads and tags that both have
/// become one. Where the host names parts of a GPU ("cuda:0/1of2") and `gpus` the GPU, a part's work is known by when the host launched it,
/// else by the stage in its tag; the recorder's own work goes to the first part. What the host saw of a GPU it lends to the GPU's work that
/// it launched meanwhile under the same step, stage, micro-batch and replica: layer and phase, the host's edges from and to other devices,
/// the extent of an action. A host's copy from or to a GPU lends the GPU's copy that was launched meanwhile its tag and the end that the
/// GPU does not know, and counts once, as the GPU's. Edges between two GPUs are the GPUs' own. Losses add up; `untagged` and
/// `out_of_window` count what is kept. Steps and memory are the host's. Requires: both ordered by start. The result is, too.
[[nodiscard]] Trace merge_traces(const Trace& host, const Trace& gpus, Nanoseconds gpus_started);

}  // namespace mptune
