#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tuner/runtime/bound_graph.h"
#include "tuner/runtime/host_inputs.h"
#include "tuner/runtime/idle_help.h"
#include "tuner/runtime/rank_exchange.h"
#include "tuner/runtime/rank_receivers.h"
#include "tuner/runtime/tied_weights.h"

namespace mptune::tuner {

/// Takes steps through a bound graph. One thread drives it; `graph` outlives it.
class StepRunner {
 public:
  StepRunner(BoundGraph& graph, std::uint64_t seed);

  /// Does what Pipeline::step() does, for a batch of at least one sample and at most the plan's number.
  StepResult run(const Tensors& inputs, const at::Tensor& target, Accumulate accumulate);
  /// Returns the outputs of the last stage in evaluation mode, on the host, by micro-batch that has samples. It takes as many samples as
  /// run().
  [[nodiscard]] std::vector<Tensors> evaluate(const Tensors& inputs);
  /// See Pipeline::on_stages().
  void on_stages(const std::function<void(int stage)>& work);
  /// See Pipeline::update_with_next_step().
  void update_with_next_step(std::function<void(int stage)> work);
  /// See Pipeline::finish_update().
  void finish_update();
  /// See Pipeline::record().
  void record(HostCollector* collector, TagSink* gpus);
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }
  /// Adds up what all ranks give, element by element; all ranks call this. Without ranks, returns what is given.
  [[nodiscard]] std::vector<double> sum_over_ranks(std::vector<double> own);
  /// Returns on every rank, in host memory, the tensors of the rank that has the stage's first replica. All ranks call this; the others
  /// give none. Without ranks, returns what is given.
  [[nodiscard]] Tensors of_stage_everywhere(int stage, const Tensors& own);
  /// See Pipeline::on_first_rank().
  [[nodiscard]] std::vector<Tensors> on_first_rank(const Tensors& own);
  /// See Pipeline::from_first_rank().
  [[nodiscard]] Tensors from_first_rank(const Tensors& own) { return exchange_ ? exchange_->from_one(0, own) : own; }
  /// See Pipeline::failed_at().
  [[nodiscard]] const std::string& failed_at() const { return failed_at_; }

 private:
  [[nodiscard]] Tag tag_of(const BoundAction& bound) const {
    return {static_cast<int>(steps_), bound.action.stage, bound.action.microbatch, -1, bound.stage->replica()};
  }
  [[nodiscard]] Tag tag_of(const StageReplica& replica) const {
    return {static_cast<int>(steps_), replica.stage(), -1, -1, replica.replica()};
  }
  void for_replicas(int device, const std::function<void(StageReplica&)>& work);

  [[nodiscard]] Tensors on_host(const Tensors& inputs) const;
  /// Runs `work` on all devices while inputs are staged; rethrows the first error when all have recovered.
  void run_devices(bool evaluates, const std::function<void(int device)>& work);
  void on_trained_replicas(const std::function<void(StageReplica&)>& work);
  void optimize(StageReplica& replica, const std::function<void(int stage)>& work);
  /// Runs the work of update_with_next_step() for the stage, if it has not run yet and this replica is the one that is trained.
  void update(StageReplica& replica);
  void begin_row(int device, Accumulate accumulate);
  void give_values(int device, bool buffers);
  using NamedTensors = const std::vector<NamedTensor>& (StageReplica::*)() const;
  [[nodiscard]] Tensors trained_values(int stage, NamedTensors of, const Tensors& received) const;
  /// Prepares a replica for a step; called before its first action.
  void prepare(StageReplica& replica, Accumulate accumulate);
  void refresh(StageReplica& replica, int device);
  void await_update(int stage, int device);
  void refresh_buffers(StageReplica& replica);
  /// An action and the moment when its device has done it.
  struct Launched {
    const BoundAction* action = nullptr;
    MomentPtr end;
  };
  void run_row(int device, Accumulate accumulate);
  void keep_lead(std::deque<Launched>& launched);
  void run_action(const BoundAction& bound);
  void run_named(const BoundAction& bound, void (StepRunner::*work)(const BoundAction&));
  void naming_place(const BoundAction& bound, const std::function<void()>& work);
  void evaluate_row(int device);
  void evaluate_action(const BoundAction& bound);
  [[nodiscard]] RunContext context_of(int microbatch) const;
  void keep_to_cap(int device, std::int64_t growth);
  void send_losses(int device);
  void forward(const BoundAction& bound);
  void backward(const BoundAction& bound);
  /// Waits for `ready()` to return true; the device helps others meanwhile. Returns when it last helped.
  template <class Ready>
  profiler::SteadyClock::time_point wait(int device, PendingWeights::Size first, const Ready& ready) {
    const auto tag = [this](const StageReplica& replica, int microbatch) {
      return Tag{static_cast<int>(steps_), replica.stage(), microbatch, -1, replica.replica()};
    };
    return help_.wait(device, first, collector_, tag, ready);
  }
  Message await(Channel& channel, MessageTag tag, int device, profiler::SteadyClock::time_point& idle_since);
  /// `why`: what a recording says that the device waits for.
  Message receive(Channel& channel, MessageTag tag, const BoundAction& bound, const char* why);
  Tensors receive(Channel& channel, MessageTag tag, const BoundAction& bound);
  Tensors receive_inputs(const BoundAction& bound);
  void send_outputs(const BoundAction& bound, Tensors outputs);
  Tensors receive_gradients(const BoundAction& bound);
  void send_gradients(const BoundAction& bound, Tensors gradients);
  void await_sent(const BoundAction& bound);

  void free(const BoundOffload& offload, const BoundAction& before);
  void fetch(const BoundOffload& offload);
  void restore(const BoundAction& bound);

  void begin_ends();
  [[nodiscard]] int shares_of(int stage) const;
  [[nodiscard]] int share_of(const StageReplica& replica) const;
  [[nodiscard]] static int replicas_here(const BoundGraph::Replicas& replicas);
  /// Called when the replica's gradients of this step are final, but for those of other replicas that are added.
  void end_replica(StageReplica& replica);
  /// Waits, and helps others meanwhile. Returns false if the step has failed.
  [[nodiscard]] bool wait_unless_failed(int device, const std::function<bool()>& ready);
  void finish(int device);
  [[nodiscard]] bool finish_share(StageReplica& replica);
  void sum_gradients(StageReplica& replica, int shares);
  void sum_replicas(StageReplica& replica, int shares);
  /// Makes the replica's sums of gradients start after all of these moments.
  void await_computed(const StageReplica& replica, const std::vector<MomentPtr>& computed);
  /// Makes later work of the device start after all of these moments.
  void after(int device, const std::vector<MomentPtr>& moments);
  void commit_statistics(const StageReplica& replica, int shares);
  void sum_tied(int device);
  [[nodiscard]] double take_loss();
  [[nodiscard]] bool all_shares_done() const;

  // Between ranks (step_ranks.cc).
  [[nodiscard]] std::vector<int> replicas_elsewhere(int stage) const;
  [[nodiscard]] int replica_here(int stage) const;
  void send_values(const StageReplica& first, bool buffers);
  void receive_values(bool buffers);
  void await_values(int device);
  void send_gradients_of(StageReplica& replica);
  void receive_gradients();
  [[nodiscard]] Tensors await_gradients_of(int stage, int replica);
  void sum_shares(StageReplica& trained);
  void all_reduce(StageReplica& trained);
  void share_statistics(StageReplica& replica);
  void receive_statistics(StageReplica& trained);
  void send_tied_gradients(const StageReplica& first);
  void share_evaluated();

  void record_compute(StageReplica& replica);
  void record_copies(BoundLink& link);
  void record_host_copies(const StageReplica& replica, MailboxChannel& channel);

  BoundGraph& graph_;
  std::optional<RankExchange> exchange_;  ///< nothing without ranks
  const TiedWeights tied_;
  IdleHelp help_;
  const std::uint64_t seed_;
  HostCollector* collector_ = nullptr;
  TagSink* gpus_ = nullptr;
  std::int64_t steps_ = 0;
  const bool has_copies_;  ///< replicas, or copies of tied weights: each step begins with refreshing them
  bool running_ = false;   ///< device threads are at work; they may call what would else start work on them

  /// The values of a stage's replica that another rank trains, as the current step needs them here.
  struct Values {
    Tensors parameters, buffers;
  };
  std::vector<Values> values_;          ///< per stage
  std::map<int, Tensors> tied_values_;  ///< by number of the weight
  std::atomic<bool> values_are_here_{true};

  struct StageUpdate {
    std::atomic<bool> left{false};
    MomentPtr done;  ///< the end of its work, once `left` is false
  };
  std::function<void(int stage)> update_;
  std::vector<StageUpdate> updates_;  ///< per stage

  // of the current step
  struct StageEnd {
    std::atomic<int> running{0};      ///< replicas with backwards to come
    std::atomic<int> shares_left{0};  ///< shares of summing gradients and committing statistics
    std::vector<MomentPtr> computed;  ///< per replica: the end of its work, once it no longer runs
    std::vector<MomentPtr> finished;  ///< per share: the end of its work, once it is done
  };
  std::vector<StageEnd> ends_;  ///< per stage
  /// Gradients of a replica of another rank until they are added here; one replica of a stage at a time.
  struct Arrived {
    std::atomic<int> replica{-1};
    Tensors gradients;
  };
  std::vector<Arrived> arrived_;  ///< per stage
  HostInputs inputs_;
  BatchParts parts_;
  std::vector<double> weights_;     ///< weights of the micro-batches' losses
  std::vector<Tensors> evaluated_;  ///< by micro-batch
  std::string failed_at_;
  RankReceivers receivers_;  ///< its threads use the above
};

}  // namespace mptune::tuner
