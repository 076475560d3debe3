#pragma once

#include <atomic>
#include <map>
#include <optional>
#include <vector>

#include "tuner/runtime/graph/tied_weights.h"
#include "tuner/runtime/ranks/rank_exchange.h"
#include "tuner/runtime/ranks/rank_receivers.h"
#include "tuner/runtime/step/running_step.h"

namespace mptune::tuner {

/// What a step of several ranks exchanges besides the messages of its stages. Every rank that has replicas of a stage trains it, with the
/// sum of all their gradients. Each of these R ranks adds up one of R parts of every gradient, in order of the replicas, here with R = 2:
///
///     rank 0     update ---> forwards, backwards ---> gradients' 2nd half -->   <-- their 1st half; sum of it -->   <-- sum of the 2nd
///     rank 1     update ---> forwards, backwards ---> gradients' 1st half -->   <-- their 2nd half; sum of it -->   <-- sum of the 1st
///     both                                            statistics of batch norms, and then losses of the micro-batches <---> all ranks
///
/// With Reduce::all_reduce each rank sums its own replicas' gradients, and an all-reduce adds these sums.
///
/// Where devices would not train the stage alike (BoundGraph), the rank of the first replica trains it for all:
///
///     rank of the first replica     update, parameters --->                          <--- gradients, statistics of the others; sum
///     rank of another replica                          ---> forwards, backwards ---> gradients, statistics
///
/// Where one process has all devices there is nothing to exchange: functions that send do nothing, and there is nothing to receive.
class RankStep {
 public:
  /// `step` and `tied` outlive this.
  RankStep(RunningStep& step, const TiedWeights& tied);

  /// Begins a step. Call it, then meanwhile() while the devices work, then end(), in the thread that drives the step. Errors go to
  /// BoundGraph::fail().
  void begin(bool evaluates);
  /// Receives the values that other ranks train, and the gradients of their replicas.
  void meanwhile(bool evaluates);
  void end() { receivers_.end(); }

  /// Sends the values of a stage's parameters, and of its buffers if asked for, to ranks that do not train it, and of its tied weights to
  /// ranks with copies of them. Call it in the compute thread of the stage's first replica, once its parameters are those of the step.
  void send_values(const StageReplica& first, bool buffers);
  /// Makes the device's thread wait until values that other ranks train are here. Throws StepCancelled.
  void await_values(int device);
  /// Return values that other ranks train. They may be read after await_values().
  [[nodiscard]] const Tensors& parameters_of(int stage) const { return values_[as_index(stage)].parameters; }
  [[nodiscard]] const Tensors& buffers_of(int stage) const { return values_[as_index(stage)].buffers; }
  [[nodiscard]] const at::Tensor& tied_value(int weight) const { return tied_values_.at(weight).at(0); }

  /// Sends each rank that trains the replica's stage the part of its gradients that this rank sums. Call it in the compute thread of a
  /// replica whose row has ended.
  void send_gradients_of(StageReplica& replica);
  /// Returns the gradients of another rank's replica, in the order of StageReplica::trained(). Call it in the compute thread of the replica
  /// that is trained. Throws StepCancelled.
  [[nodiscard]] Tensors await_gradients_of(int stage, int replica);
  /// Sums this rank's part of the gradients and exchanges the sums. Call it in the compute thread of the replica that is trained, once the
  /// gradients of all replicas here are final.
  void sum_shares(StageReplica& trained);
  /// Adds the gradients of all ranks. Call it in the same thread, once the replica has the gradients of all replicas here.
  void all_reduce(StageReplica& trained);

  /// Sends what a replica saw to all ranks that train its stage. Call it in the compute thread of a replica that has seen all its
  /// micro-batches. Each of these ranks commits the statistics of all.
  void share_statistics(StageReplica& replica);
  /// Gives the replica of a stage that is trained the statistics that other ranks' replicas saw.
  void receive_statistics(StageReplica& trained);

  /// Sends the gradients of tied weights to the ranks that train these weights and do not have the gradients. Call it in the compute thread
  /// of a stage's first replica, when its gradients are final.
  void send_tied_gradients(const StageReplica& first);
  [[nodiscard]] at::Tensor receive_tied_gradient(const TiedWeights::Weight& weight, const TiedWeights::Copy& copy);

  /// Adds up what all ranks give, element by element; all ranks call this. Without ranks, returns what is given.
  [[nodiscard]] std::vector<double> sum_of(const std::vector<double>& own);
  /// Returns on every rank, in host memory, the tensors of the rank that has a replica. All ranks call this; the others give none. Without
  /// ranks, returns what is given.
  [[nodiscard]] Tensors from_replica(int stage, int replica, const Tensors& own);
  /// See Pipeline::on_first_rank() and Pipeline::from_first_rank().
  [[nodiscard]] std::vector<Tensors> on_first_rank(const Tensors& own);
  [[nodiscard]] Tensors from_first_rank(const Tensors& own);

 private:
  [[nodiscard]] std::vector<int> replicas_elsewhere(int stage) const;
  [[nodiscard]] int replica_here(int stage) const;
  [[nodiscard]] int own_rank() const { return graph_.ranks()->group().rank(); }
  void send_tied_values(int stage);
  void receive_values(bool buffers);
  void receive_values_of(int stage, bool buffers);
  void receive_tied_values();
  void receive_gradients();
  [[nodiscard]] bool receive_gradients_of(const StageReplica& trained);

  RunningStep& step_;
  BoundGraph& graph_;
  const TiedWeights& tied_;
  std::optional<RankExchange> exchange_;  ///< nothing without ranks
  bool gets_values_ = false;              ///< stages have replicas, or copies of tied weights, that other ranks may train

  /// The values of a stage's replica that another rank trains, as the current step needs them here.
  struct Values {
    Tensors parameters, buffers;
  };
  std::vector<Values> values_;          ///< per stage
  std::map<int, Tensors> tied_values_;  ///< by number of the weight
  std::atomic<bool> values_are_here_{true};

  /// Gradients of a replica of another rank until they are added here; one replica of a stage at a time.
  struct Arrived {
    std::atomic<int> replica{-1};
    Tensors gradients;
  };
  std::vector<Arrived> arrived_;  ///< per stage
  RankReceivers receivers_;       ///< its threads use the graph and, while recording, the step
};

}  // namespace mptune::tuner
