#pragma once

#include <atomic>
#include <vector>

#include "tuner/runtime/graph/tied_weights.h"
#include "tuner/runtime/ranks/rank_step.h"
#include "tuner/runtime/step/running_step.h"

namespace mptune::tuner {

/// How a step ends: each stage sums its replicas' gradients and commits its statistics as soon as they are final, while other stages still
/// run their backwards. On CPU each of a stage's replicas sums a share of the
/// parameters, if all of them are on this rank:
///
///     replica 0    F0 F2 B0 B2 | sums parameters 0, 2, 4 .. over the replicas
///     replica 1    F1 F3 B1 B3 | sums parameters 1, 3, 5 ..
class ReplicaSums {
 public:
  /// `step`, `tied` and `ranks` outlive this.
  ReplicaSums(RunningStep& step, const TiedWeights& tied, RankStep& ranks);

  /// Begins a step. Call it in the thread that drives the step, before devices work.
  void begin();
  /// Call it in the replica's compute thread when its gradients of this step are final, but for those of other replicas that are added.
  void end_replica(StageReplica& replica);
  /// Sums what the device has to sum, and commits statistics; waits for other replicas, and helps other devices meanwhile. Call it in the
  /// device's compute thread when its row has ended. Returns early if the step has failed.
  void finish(int device);

 private:
  [[nodiscard]] int shares_of(int stage) const;
  [[nodiscard]] int share_of(const StageReplica& replica) const;
  [[nodiscard]] bool finish_share(StageReplica& replica);
  [[nodiscard]] bool all_shares_done() const;
  void sum_gradients(StageReplica& replica, int shares);
  void sum_replicas(StageReplica& replica, int shares);
  void await_computed(const StageReplica& replica, const std::vector<MomentPtr>& computed);
  void commit_statistics(const StageReplica& replica, int shares);
  void finish_tied(int device);
  void sum_tied(const TiedWeights::Weight& weight, StageReplica& trained);

  struct StageEnd {
    std::atomic<int> running{0};      ///< replicas with backwards to come
    std::atomic<int> shares_left{0};  ///< shares of summing gradients and committing statistics
    std::vector<MomentPtr> computed;  ///< per replica: the end of its work, once it no longer runs
    std::vector<MomentPtr> finished;  ///< per replica: the end of its share, once it is done
  };
  RunningStep& step_;
  BoundGraph& graph_;
  const TiedWeights& tied_;
  RankStep& ranks_;
  std::vector<StageEnd> ends_;  ///< per stage
};

}  // namespace mptune::tuner
