#pragma once

#include <optional>
#include <string>

#include "profiler/trace/trace.h"

namespace mptune::profiler {

/// What a range of a training program says of the work that is launched within it.
struct PipelineRange {
  EventKind kind = EventKind::forward;
  int stage = -1;       ///< -1: the name does not say it
  int microbatch = -1;  ///< likewise
  bool operator==(const PipelineRange&) const = default;
};

/// Knows the ranges of
/// - torch.distributed.pipelining and torchtitan: "PP:1F3" (stage, action, micro-batch), "Forward 3", "Backward 3";
/// - Megatron-LM: "forward_step", "backward_step", "forward-compute", "backward-compute", also behind a path
///   ("megatron.core.pipeline_parallel.schedules.forward_step");
/// - PyTorch's optimizers: "Optimizer.step#AdamW.step".
[[nodiscard]] std::optional<PipelineRange> pipeline_range_of(const std::string& name);

/// Work launched within such a range gets its kind, stage and micro-batch. Outer ranges count. Ranges without a number are counted, each
/// kind for itself, on every device in every step: micro-batches of a schedule without virtual stages.
///
/// Where neither ranges nor messages say the stage, the forwards before the first backward do, if they differ: 1F1B runs as many as there
/// are stages from this one on. They must be the numbers from 1 or more upwards, each on equally many devices.
///
/// Requires: tag_ranks() has tagged the work; launches.
void tag_pipeline_ranges(Trace& trace);

}  // namespace mptune::profiler
