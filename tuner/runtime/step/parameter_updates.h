#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "tuner/runtime/graph/tied_weights.h"
#include "tuner/runtime/ranks/rank_step.h"
#include "tuner/runtime/step/running_step.h"

namespace mptune::tuner {

/// What happens to parameters between the gradients of a step and their next use: the optimizers' steps, then copies for other replicas and
/// tied weights. With with_next_step() a stage's optimizer runs in the stage's thread before the stage's first action
/// of the next step. Without replicas and tied weights other stages already compute:
///
///     cpu:0   .. B3 | optimizer of stage 0 | F0 F1 ..
///     cpu:1   .. B3 | optimizer of stage 1 |    F0 F1 ..     while cpu:0 already runs F1
class ParameterUpdates {
 public:
  /// `step`, `tied` and `ranks` outlive this.
  ParameterUpdates(RunningStep& step, const TiedWeights& tied, RankStep& ranks);

  /// See Pipeline::on_stages().
  void on_stages(const std::function<void(int stage)>& work);
  /// See Pipeline::update_with_next_step().
  void with_next_step(std::function<void(int stage)> work);
  /// See Pipeline::finish_update().
  void finish();

  /// Prepares the device's replicas for the actions of its row. Where the graph has replicas or copies of tied weights that is all; else
  /// prepare() has to be called for each replica before its first action. Both are called in the device's compute thread.
  void begin_row(int device, Accumulate accumulate);
  void prepare(StageReplica& replica, Accumulate accumulate);
  [[nodiscard]] bool prepares_in_row() const { return !has_copies_; }
  /// Gives the device's replicas the parameters and buffers of the trained ones, for an evaluation.
  void begin_evaluation(int device);

 private:
  void on_trained_replicas(const std::function<void(StageReplica&)>& work);
  void optimize(StageReplica& replica, const std::function<void(int stage)>& work);
  void update(StageReplica& replica);
  void give_values(int device, bool buffers);
  void refresh(StageReplica& replica, int device);
  void copy_parameters(StageReplica& replica, bool trained);
  void refresh_buffers(StageReplica& replica);
  void await_update(int stage, int device);
  using NamedTensors = const std::vector<NamedTensor>& (StageReplica::*)() const;
  [[nodiscard]] Tensors trained_values(int stage, NamedTensors of, const Tensors& received) const;

  struct StageUpdate {
    std::atomic<bool> left{false};
    MomentPtr done;  ///< the end of its work, once `left` is false
  };
  RunningStep& step_;
  BoundGraph& graph_;
  const TiedWeights& tied_;
  RankStep& ranks_;
  const bool has_copies_;  ///< replicas, or copies of tied weights: each step begins with refreshing them
  std::function<void(int stage)> update_;
  std::vector<StageUpdate> updates_;  ///< per stage
};

}  // namespace mptune::tuner
