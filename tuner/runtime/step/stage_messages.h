#pragma once

#include "tuner/runtime/step/host_inputs.h"
#include "tuner/runtime/step/running_step.h"

namespace mptune::tuner {

/// What the stages of a step send each other, and the host. Each function is called in the compute thread of the action's device; those
/// that receive wait, and the device helps others meanwhile.
class StageMessages {
 public:
  /// `step` and `inputs` outlive this.
  StageMessages(RunningStep& step, HostInputs& inputs) : step_(step), graph_(step.graph), inputs_(inputs) {}

  /// Returns what the stage takes, with undefined tensors where it reads nothing.
  [[nodiscard]] Tensors receive_inputs(const BoundAction& bound);
  void send_outputs(const BoundAction& bound, Tensors outputs);
  /// Returns the gradients of the stage's outputs. Adds those of an output that several stages read.
  [[nodiscard]] Tensors receive_gradients(const BoundAction& bound);
  void send_gradients(const BoundAction& bound, Tensors gradients);
  /// Waits until nothing reads any more what the action has sent to other stages.
  void await_sent(const BoundAction& bound);

  /// Frees the saved activations of a micro-batch that was copied to the host, before the action `before`.
  void free(const BoundOffload& offload, const BoundAction& before);
  /// Begins to copy them back.
  void fetch(const BoundOffload& offload);
  /// Puts them back before the backward `bound`, if they were offloaded.
  void restore(const BoundAction& bound);

 private:
  Message await(Channel& channel, MessageTag tag, int device, profiler::SteadyClock::time_point& idle_since);
  /// `why`: what a recording says that the device waits for.
  Message receive(Channel& channel, MessageTag tag, const BoundAction& bound, const char* why);
  Tensors receive(Channel& channel, MessageTag tag, const BoundAction& bound);
  [[nodiscard]] Device& device_of(const BoundAction& bound) const { return graph_.device(graph_.device_of(*bound.stage)); }

  RunningStep& step_;
  BoundGraph& graph_;
  HostInputs& inputs_;
};

}  // namespace mptune::tuner
