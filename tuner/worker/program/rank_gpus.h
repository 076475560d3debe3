#pragma once

#include <optional>
#include <string>
#include <vector>

#include "profiler/model/layers/layer.h"
#include "profiler/trace/values/trace.h"
#include "tuner/runtime/between/rank_clocks.h"

namespace mptune::tuner {

/// What the GPU recorder of a rank saw.
struct RankGpus {
  std::optional<Trace> trace;  ///< devices without rank: "cuda:0"; nothing where the rank has no GPU, or it was not recorded
  Nanoseconds started{0};      ///< time 0 of the trace, on the rank's clock
  std::string refusal;         ///< why GPUs that the rank has were not recorded
};

/// Returns the tensors to send to another rank.
[[nodiscard]] Tensors message_of(const RankGpus& gpus);
/// Returns what a message of message_of() holds. Throws Error (internal) for a message of another form.
[[nodiscard]] RankGpus gpus_from(const Tensors& message);

/// Merges what the hosts of all ranks recorded with what their GPUs recorded (merge_traces). `host_started`: time 0 of `host` on rank 0's
/// clock. `gpus`, `clocks`: by rank. Work of GPUs that were not recorded counts as dropped.
[[nodiscard]] Trace with_gpus_of_ranks(const Trace& host, Nanoseconds host_started, const std::vector<RankGpus>& gpus,
                                       const std::vector<RankClock>& clocks);

}  // namespace mptune::tuner
