#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/plan/plan.h"

namespace mptune::planner {

/// What a device holds at its peak, in bytes.
struct PeakContents {
  std::int64_t parameters_bytes = 0;
  std::int64_t gradients_bytes = 0;  ///< gradients of parameters; those that the running action makes are in its workspace
  std::int64_t optimizer_bytes = 0;
  /// Buffers of the layers, batch-norm statistics per micro-batch, the losses on the last stage, and on a GPU the step's samples and
  /// targets where its stages read them.
  std::int64_t buffers_bytes = 0;
  std::map<int, std::int64_t> activations_bytes;  ///< saved for backward or weight gradients, by micro-batch
  std::int64_t communication_buffer_bytes = 0;    ///< for inputs and gradients from other devices, and outputs that copies still read
  std::int64_t workspace_bytes = 0;               ///< workspace of the action that runs, and tensors on their way to other devices
  std::int64_t library_bytes = 0;                 ///< memory of CUDA's libraries: workspaces of cuBLAS, buffers of NCCL
  std::int64_t reserve_bytes = 0;                 ///< what the allocator holds beyond all that
  [[nodiscard]] std::int64_t total() const;
  bool operator==(const PeakContents&) const = default;
};

/// What a device holds over a step, in bytes.
struct MemoryLevels {
  std::int64_t before_bytes = 0;           ///< before its first action
  std::vector<std::int64_t> during_bytes;  ///< while each action of its row runs; the largest is the peak
  std::vector<std::int64_t> after_bytes;   ///< between each action and the next; after the last, until the step ends
  bool operator==(const MemoryLevels&) const = default;
};

/// Returns the peak bytes on each of the plan's devices in a step that begins without gradients: parameters (not of a further replica in
/// the host's memory, which reads the first one's), gradients from the first backward on, optimizer state, buffers, activations in flight
/// by the schedule and statistics of batch norms, communication buffers of inputs and of gradients, workspace, libraries, the allocator's
/// reserve. A received input, with the tensors for later stages that come with it, is held until the stage's backward ends. An output that
/// no backward needs is held until it is sent. Activations that lie in host memory count while they are on the device
/// (planner/plan/offload.h); a GPU keeps the memory that they come back to. Within an action memory is counted layer by layer: a backward,
/// or a part of a split one whose memory was measured, peaks where it has freed little and made much. The result is meant to be at least
/// what is measured. It does not see more than two tensors of a CPU that wait for a slow link, what input gradients free before the weight
/// gradients run where that was not measured, or storage that tensors share. Requires: a valid plan and schedule. Throws Error for a batch
/// that is not countable, like the next functions.
[[nodiscard]] std::vector<std::int64_t> peak_bytes(const Plan& plan, const CostModel& cost);
/// Returns the peak bytes on one of the plan's devices. They depend on the layer ranges of its own stages only.
[[nodiscard]] std::int64_t peak_bytes(const Plan& plan, const CostModel& cost, int device);
/// Returns what each of the plan's devices holds at its peak; total() is the peak.
[[nodiscard]] std::vector<PeakContents> peak_contents(const Plan& plan, const CostModel& cost);
/// Returns what each of the plan's devices holds over the step. The largest of during_bytes is the peak, except on a device without
/// actions. A GPU's communication buffers count as full all the time.
[[nodiscard]] std::vector<MemoryLevels> memory_levels(const Plan& plan, const CostModel& cost);

}  // namespace mptune::planner
