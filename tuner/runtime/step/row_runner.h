#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "tuner/runtime/step/host_inputs.h"
#include "tuner/runtime/step/parameter_updates.h"
#include "tuner/runtime/step/replica_sums.h"
#include "tuner/runtime/step/running_step.h"
#include "tuner/runtime/step/stage_messages.h"

namespace mptune::tuner {

/// Runs the actions of a device's row, one after the other:
///
///     receive ─▶ forward or backward ─▶ send        ── actions of other devices do the same at the same time
class RowRunner {
 public:
  /// All of these outlive this. `seed`: of the random numbers of layers.
  RowRunner(RunningStep& step, HostInputs& inputs, ParameterUpdates& updates, ReplicaSums& sums, std::uint64_t seed)
      : step_(step), graph_(step.graph), inputs_(inputs), messages_(step, inputs), updates_(updates), sums_(sums), seed_(seed) {}

  /// `weights`: of the micro-batches' losses. Call it in the thread that drives the step, before devices work.
  void begin(std::vector<double> weights) { weights_ = std::move(weights); }
  /// Runs all actions of the device's row. Call it in its compute thread.
  void train(int device, Accumulate accumulate);
  /// Runs the forwards of a row in their order, in evaluation mode. They wait only for forwards, so they end as those of a step do. Puts
  /// the outputs of the last stage into `outputs`, by micro-batch. Call it in the device's compute thread.
  void evaluate(int device, std::vector<Tensors>& outputs);

 private:
  /// An action and the moment when its device has done it.
  struct Launched {
    const BoundAction* action = nullptr;
    MomentPtr end;
  };
  void begin_row(int device, Accumulate accumulate);
  void train_action(const BoundAction& bound, int device);
  void keep_lead(std::deque<Launched>& launched);
  void keep_to_cap(int device, std::int64_t growth);
  void send_losses(int device);
  void naming_place(const BoundAction& bound, const std::function<void()>& work);
  void run_action(const BoundAction& bound);
  void forward(const BoundAction& bound);
  void backward(const BoundAction& bound);
  void evaluate_action(const BoundAction& bound, Tensors& outputs);
  [[nodiscard]] RunContext context_of(int microbatch) const;

  RunningStep& step_;
  BoundGraph& graph_;
  HostInputs& inputs_;
  StageMessages messages_;
  ParameterUpdates& updates_;
  ReplicaSums& sums_;
  const std::uint64_t seed_;
  std::vector<double> weights_;  ///< of the micro-batches' losses
};

}  // namespace mptune::tuner
