#pragma once

#include <atomic>
#include <exception>
#include <vector>

#include "tuner/runtime/batch_parts.h"
#include "tuner/runtime/bound_graph.h"

namespace mptune::tuner {

/// A step's batch in host memory, by micro-batches. What a device would copy within the host's memory before it can read it
/// (Device::staged) is copied by the thread that drives the step, while the devices compute. The others get views of the batch.
class HostInputs {
 public:
  /// `graph` outlives this.
  explicit HostInputs(const BoundGraph& graph);

  /// Before the step, in the thread that drives it. `target` may be undefined.
  void begin(Tensors inputs, at::Tensor target, const BatchParts& parts);
  /// During the step, in that thread. Stages what is to be staged; an exception reaches those who wait for it.
  void stage();
  void end();

  /// What a stage reads of the batch's inputs (StageTensors). In the device's compute thread: waits until they are staged. Each once a
  /// step.
  [[nodiscard]] Tensors inputs_of(int stage, int microbatch);
  /// Undefined if the batch has no target.
  [[nodiscard]] at::Tensor target_of(int microbatch);

 private:
  struct Slot {
    std::atomic<bool> staged{false};
    Tensors tensors;
    std::exception_ptr error;
  };
  [[nodiscard]] Device& device_of(const Stage& stage, int microbatch) const;
  /// The inputs of the batch that a stage reads, in the order of its StageTensors.
  [[nodiscard]] Tensors read_by(int stage) const;
  [[nodiscard]] Slot& input_slot(int stage, int microbatch);
  [[nodiscard]] Tensors samples(const Tensors& batch, int microbatch) const;
  void stage(Slot& slot, const Tensors& batch, Device& device, int microbatch);
  [[nodiscard]] Tensors take(Slot& slot, const Tensors& batch, const Device& device, int microbatch) const;

  void clear();

  const BoundGraph& graph_;
  Tensors inputs_, target_;
  BatchParts parts_;
  std::vector<Slot> input_slots_;   ///< per stage and micro-batch
  std::vector<Slot> target_slots_;  ///< per micro-batch
};

}  // namespace mptune::tuner
