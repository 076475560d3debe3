#pragma once

#include <atomic>
#include <exception>
#include <vector>

#include "tuner/runtime/graph/bound_graph.h"
#include "tuner/runtime/step/batch_parts.h"

namespace mptune::tuner {

/// A step's batch in host memory, by micro-batches. What a device would copy within the host's memory before it can read it
/// (Device::staged) is copied by the thread that drives the step, while the devices compute. Other devices get views of the batch.
class HostInputs {
 public:
  /// `graph` outlives this.
  explicit HostInputs(const BoundGraph& graph);

  /// Takes the batch of a step. Call it before the step, in the thread that drives it. `target` may be undefined.
  void begin(Tensors inputs, at::Tensor target, const BatchParts& parts);
  /// Stages what devices need staged. Call it during the step, in the same thread. An exception reaches the threads that wait for the
  /// tensors.
  void stage();
  void end();

  /// Returns what a stage reads of the batch's inputs (StageTensors), and waits until it is staged. Call it in the device's compute thread,
  /// once a step for each stage and micro-batch.
  [[nodiscard]] Tensors inputs_of(int stage, int microbatch);
  /// Returns the target of a micro-batch; undefined if the batch has none.
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
