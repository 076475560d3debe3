#pragma once

#include <optional>
#include <string>
#include <utility>

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
/// - torch.distributed.pipelining and torchtitan: "PP:1F3" (stage, action, micro-batch), "Forward 3", "Backward 3"
///   (_get_profiler_function_name and record_function in torch/distributed/pipelining/schedules.py);
/// - Megatron-LM: "forward_step", "backward_step", "forward-compute", "backward-compute", also behind a path
///   ("megatron.core.pipeline_parallel.schedules.forward_step");
/// - PyTorch's optimizers: "Optimizer.step#AdamW.step";
/// - PyTorch's profiler with stacks, functions by file and line: Megatron-LM's "megatron/core/pipeline_parallel/schedules.py(284):
///   forward_step", and "torch/distributed/pipelining/stage.py(650): forward_one_chunk", as Schedule1F1B records no range.
[[nodiscard]] std::optional<PipelineRange> pipeline_range_of(const std::string& name);

/// The two actions of a range of torch.distributed.pipelining that runs them at once: "PP:(1F3;0B2)OVERLAP_F_B", forward first.
/// Nothing for other names.
[[nodiscard]] std::optional<std::pair<PipelineRange, PipelineRange>> overlapped_ranges_of(const std::string& name);

/// Work launched within such a range gets its kind, stage and micro-batch. Outer ranges count. Ranges without a number are counted, each
/// kind for itself, on every device in every step: micro-batches of a schedule without virtual stages, or in the order of interleaved 1F1B
/// where the warm-ups are its (virtual_stages.h).
///
/// Work of a range that runs a forward and a backward at once belongs to the forward if a thread launched it that launches other forwards
/// of the device, else to the backward: autograd has a thread of its own. Where no other forward tells, neither is known.
///
/// Where neither ranges nor messages say the stage, the forwards before the first backward do, if they differ: 1F1B runs as many as there
/// are stages from this one on. They must be the numbers from 1 or more upwards, each on equally many devices.
///
/// Requires: tag_ranks() has tagged the work; launches.
void tag_pipeline_ranges(Trace& trace);

}  // namespace mptune::profiler
