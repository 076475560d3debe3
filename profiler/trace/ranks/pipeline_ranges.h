#pragma once

#include <optional>
#include <string>
#include <utility>

#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// What a range of a training program says about the work that is launched within it.
struct PipelineRange {
  EventKind kind = EventKind::forward;
  int stage = -1;       ///< -1: the name does not say it
  int microbatch = -1;  ///< -1: the name does not say it
  bool operator==(const PipelineRange&) const = default;
};

/// Reads the name of a range, if it is one of
/// - torch.distributed.pipelining and torchtitan: "PP:1F3" (stage, action, micro-batch), "Forward 3", "Backward 3"
///   (_get_profiler_function_name and record_function in torch/distributed/pipelining/schedules.py);
/// - Megatron-LM: "forward_step", "backward_step", "forward-compute", "backward-compute", also after a path
///   ("megatron.core.pipeline_parallel.schedules.forward_step");
/// - PyTorch's optimizers: "Optimizer.step#AdamW.step";
/// - PyTorch's profiler with stacks, functions by file and line: Megatron-LM's "megatron/core/pipeline_parallel/schedules.py(284):
///   forward_step", and "torch/distributed/pipelining/stage.py(650): forward_one_chunk", as Schedule1F1B records no range.
[[nodiscard]] std::optional<PipelineRange> pipeline_range_of(const std::string& name);

/// Returns the two actions of a range of torch.distributed.pipelining that runs them at once: "PP:(1F3;0B2)OVERLAP_F_B", forward first.
/// Returns nullopt for other names.
[[nodiscard]] std::optional<std::pair<PipelineRange, PipelineRange>> overlapped_ranges_of(const std::string& name);

/// Gives work that is launched within a pipeline range the range's kind, stage and micro-batch. Outer ranges count. Ranges without a number
/// are counted, each kind for itself, on every device in every step: their micro-batches ascend in a schedule without virtual stages, or
/// have the order of interleaved 1F1B if the warm-ups match it (virtual_stages.h).
///
/// Work in a range that runs a forward and a backward at once belongs to the forward if the thread that launched it also launches other
/// forwards of the device, else to the backward: autograd has a thread of its own. If the device has no other forward, neither is known.
///
/// If neither ranges nor messages say the stage, the number of forwards before the first backward does, if it differs: 1F1B runs as many as
/// there are stages from this one on. The numbers must go from 1 or more upwards, each on equally many devices.
///
/// Requires: tag_ranks() has tagged the work; launches.
void tag_pipeline_ranges(Trace& trace);

}  // namespace mptune::profiler
