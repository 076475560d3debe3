#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/plan/offload.h"
#include "profiler/base/index.h"
#include "profiler/device/copy_lane.h"
#include "profiler/device/device_worker.h"
#include "profiler/device/doorbell.h"
#include "tuner/runtime/between/rank_streams.h"
#include "tuner/runtime/between/rank_watch.h"
#include "tuner/runtime/graph/channel.h"
#include "tuner/runtime/graph/direct_links.h"
#include "tuner/runtime/graph/stage_links.h"
#include "tuner/runtime/pipeline.h"
#include "tuner/runtime/stage/stage_replica.h"

namespace mptune::tuner {

/// Keeps the first exception of a step and ignores later ones. Thread-safe.
class FirstError {
 public:
  /// Returns true if `error` is the first one since take().
  bool set(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (error_) return false;
    error_ = std::move(error);
    return true;
  }
  [[nodiscard]] bool is_set() {
    const std::lock_guard lock(mutex_);
    return error_ != nullptr;
  }
  [[nodiscard]] std::exception_ptr take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(error_, nullptr);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
};

/// A link between a replica of one stage and a replica of another, with its channel. Both may be on the same device; one may be in another
/// process.
struct BoundLink {
  StageLink link;
  int tag = 0;     ///< tag of its forward stream between ranks; the backward stream has the next tag
  int source = 0;  ///< device of the front stage's replica
  int destination = 0;
  std::unique_ptr<MailboxChannel> channel;
  /// Per micro-batch: whether a gradient comes back. Each end learns it from the tensors, in its own thread.
  std::vector<char> front_awaits, back_owes;
};

/// A micro-batch whose saved activations lie in host memory for a while (planner/plan/offload.h).
struct BoundOffload {
  StageReplica* stage = nullptr;
  MailboxChannel* host = nullptr;  ///< forward: to host memory; backward: from there
  int microbatch = 0;
};

/// An action of a device's row with its replica and links. `text` names the action and its NVTX range; it is made once, not per step.
struct BoundAction {
  Action action;
  std::string text;
  StageReplica* stage = nullptr;
  const StageTensors* tensors = nullptr;  ///< what the stage takes and returns
  std::vector<BoundLink*> before;         ///< links of this micro-batch to the stages whose tensors this stage reads, ascending
  std::vector<BoundLink*> behind;         ///< links of this micro-batch to the stages that read this stage's tensors, ascending
  MailboxChannel* host = nullptr;         ///< to host memory and back, for the forward and backward of an offloaded micro-batch
  std::vector<BoundOffload> frees;        ///< freed before the action: device memory that was copied to the host
  std::vector<BoundOffload> fetches;      ///< begun before the action: copies back to the device
  bool computes_loss = false;
  bool begins_replica = false;  ///< the row's first action of the replica
  bool ends_replica = false;    ///< the row's last action that adds to the replica's gradients
};

/// A plan bound to a model and to devices: their workers, the stages' replicas, lanes, channels and rows of actions. For a plan over
/// several ranks it has what is on this rank's devices: rows of other ranks are empty, and their replicas null.
/// Call it from one thread, except for fail().
class BoundGraph {
 public:
  /// Throws Error for a plan that doesn't fit the model or can't be run.
  BoundGraph(const Model& model, const Plan& plan, const PipelineOptions& options, std::vector<std::shared_ptr<Device>> devices);
  ~BoundGraph();
  BoundGraph(const BoundGraph&) = delete;
  BoundGraph& operator=(const BoundGraph&) = delete;

  [[nodiscard]] const Plan& plan() const { return plan_; }
  [[nodiscard]] const Loss& loss() const { return loss_; }
  [[nodiscard]] const std::vector<std::shared_ptr<Device>>& devices() const { return devices_; }
  [[nodiscard]] Device& device(int index) const { return *devices_[as_index(index)]; }
  [[nodiscard]] const std::vector<BoundAction>& row(int device) const { return rows_[as_index(device)]; }
  /// Returns the streams between ranks; null where this process has all devices.
  [[nodiscard]] RankStreams* ranks() { return ranks_ ? &*ranks_ : nullptr; }
  [[nodiscard]] int rank_of(int device) const { return ranks_ ? devices_[as_index(device)]->spec().rank : 0; }
  /// Returns true for devices of this process.
  [[nodiscard]] bool is_here(int device) const { return !ranks_ || rank_of(device) == rank_; }

  using Replicas = std::vector<std::unique_ptr<StageReplica>>;
  [[nodiscard]] const std::vector<Replicas>& stages() const { return stages_; }
  [[nodiscard]] const Replicas& replicas(int stage) const { return stages_[as_index(stage)]; }
  /// The first replica of a stage. Requires: it is here.
  [[nodiscard]] StageReplica& first(int stage) const { return *replicas(stage)[0]; }
  [[nodiscard]] bool has_first(int stage) const { return replicas(stage)[0] != nullptr; }
  /// Returns the replica of a stage that is trained here and from which the others are refreshed: the first one here, or the first one of
  /// all where replicas on other ranks would be trained differently. Null where none is trained here.
  [[nodiscard]] StageReplica* trained(int stage) const;
  [[nodiscard]] bool is_trained(const StageReplica& replica) const { return trained(replica.stage()) == &replica; }
  /// Returns the ranks that train a stage, the rank of its first replica in front. If there are several, each of them has all gradients and
  /// statistics of the stage after a step.
  [[nodiscard]] std::vector<int> ranks_training(int stage) const;
  [[nodiscard]] bool several_train(int stage) const { return ranks_training(stage).size() > 1; }
  /// Returns whether the ranks that train a stage all-reduce its gradients instead of summing them in order.
  [[nodiscard]] bool all_reduces(int stage) const { return reduce_ == Reduce::all_reduce && several_train(stage); }
  /// Returns the rank that has a replica.
  [[nodiscard]] int rank_of(int stage, int replica) const { return rank_of(plan_.stages[as_index(stage)].devices[as_index(replica)]); }
  [[nodiscard]] int device_of(const StageReplica& replica) const;
  [[nodiscard]] bool has_replicas() const;

  [[nodiscard]] std::vector<BoundLink*> links() const;
  /// Returns the link of a micro-batch between two stages, null where neither end is here.
  [[nodiscard]] BoundLink* link_for(const StageLink& link, int microbatch) const;
  [[nodiscard]] const std::vector<StageLink>& links_of_stages() const { return stage_links_; }
  /// Returns the first tag for streams between ranks that neither a link nor anything else in this class uses.
  [[nodiscard]] int first_free_tag() const { return kTagOfLinks + 2 * static_cast<int>(links_.size()); }
  /// Return the communicators for messages between devices of different ranks, and for the all-reduce of a stage; null where these go
  /// through the host's memory.
  [[nodiscard]] profiler::GpuCommunicator* direct(int source, int destination) const {
    return direct_ ? direct_->between(source, destination) : nullptr;
  }
  [[nodiscard]] profiler::GpuCommunicator* direct_sum(int stage) const { return direct_ ? direct_->sum_of(stage) : nullptr; }
  /// Returns the stages that use each tied weight, by its name, ascending; the first of them trains it.
  [[nodiscard]] const std::map<std::string, std::vector<int>>& tied_stages() const { return tied_stages_; }
  /// Returns the replicas that offload, with their channels.
  [[nodiscard]] const std::map<StageReplica*, std::unique_ptr<MailboxChannel>>& host_channels() const { return host_channels_; }
  /// Returns what each stage takes and returns.
  [[nodiscard]] const std::vector<StageTensors>& tensors() const { return tensors_; }

  /// Sets what the shapes of the next step's messages depend on, besides the place of a message in the step: the number of samples, and
  /// whether there are backwards. Requires: equal on all ranks.
  void set_shapes(std::int64_t samples, bool backwards) { shapes_ = 2 * samples + (backwards ? 1 : 0); }
  /// Returns the kind of a message between ranks. Messages of one kind have the same shapes, as a rule (RankStreams).
  [[nodiscard]] std::int64_t kind_of_message(MessageTag tag) const;

  /// Runs `work` on every device's compute thread at once, `meanwhile` in the calling thread, and waits for all, the devices' queued work
  /// included. Passes what `work` throws to fail(); `meanwhile` does not throw.
  void for_devices(const std::function<void(int device)>& work, const std::function<void()>& meanwhile = nullptr);
  /// Makes `device` wait for the work that the calling thread had queued on device `other` when for_devices() began.
  void after_caller(int device, int other);

  /// Returns where the device's compute thread waits for messages and for anything else that may give it work.
  [[nodiscard]] profiler::Doorbell& doorbell(int device) { return *doorbells_[as_index(device)]; }
  void ring_all();

  /// Aborts the step: cancels all channels and rings all doorbells. take_error() returns the first error. Any thread may call this.
  /// Returns true if it is the step's first error.
  bool fail(std::exception_ptr error);
  [[nodiscard]] bool failed() { return first_error_.is_set(); }
  [[nodiscard]] std::exception_ptr take_error() { return first_error_.take(); }
  /// Waits for all copies.
  void drain();
  /// Drops copies, messages and saved tensors of a failed step, so that the next step can run.
  void recover();

 private:
  void find_trained_alike();
  void compare_replicas(const std::vector<std::string>& how);
  /// Returns whether waiting threads may keep their cores: all threads of devices and `others` more have a core each.
  [[nodiscard]] bool threads_may_spin(std::size_t others) const;
  /// Returns the number of threads of copy lanes.
  [[nodiscard]] std::size_t copying_threads(const LinkThrottle& link) const;
  void add_workers(const PipelineOptions& options);
  void add_stages(const Model& model);
  void connect(const profiler::GpuConnector* connector);
  void add_lanes(const LinkThrottle& link);
  void add_doorbells(const LinkThrottle& link);
  void add_links();
  /// Two replicas of linked stages that exchange messages, both ways.
  struct Pair {
    const StageLink* link = nullptr;
    int front_replica = 0;
    int back_replica = 0;
    int source = 0;  ///< device of the front stage's replica
    int destination = 0;
  };
  [[nodiscard]] std::vector<Pair> pairs() const;
  static constexpr int kHostMemory = -1;  ///< in place of a device
  static constexpr int kTagOfConnections = 0, kTagOfWatch = 1,
                       kTagOfLinks = 2;  ///< of streams between ranks; kTagOfLinks is the first of many
  [[nodiscard]] MailboxChannel::Direction direction(int source, int destination, int tag, bool gradient);
  MomentPtr send_directly(profiler::GpuCommunicator& communicator, int to, int tag, MessageTag message, const Tensors& tensors,
                          MailboxChannel::Time began);
  void add_host_lanes(int device, const LinkThrottle& link);
  void add_host_channels();
  void bind_rows();
  void bind_offloads();

  Plan plan_;
  Loss loss_;
  std::optional<RankStreams> ranks_;
  int rank_ = 0;
  Reduce reduce_;
  std::vector<char> trained_alike_;  ///< by stage: every rank that has replicas trains it, as optimizers on its devices round alike
  std::int64_t shapes_ = 0;
  std::vector<StageLink> stage_links_;
  std::vector<StageTensors> tensors_;
  std::map<std::string, std::vector<int>> tied_stages_;
  std::vector<std::shared_ptr<Device>> devices_;
  FirstError first_error_;
  // These are destroyed from the bottom up: lanes finish before workers, and workers free their stages' tensors.
  std::vector<std::unique_ptr<profiler::Doorbell>> doorbells_;  ///< per device
  std::vector<std::unique_ptr<profiler::DeviceWorker>> workers_;
  std::vector<Replicas> stages_;
  std::map<std::pair<int, int>, std::unique_ptr<profiler::CopyLane>> lanes_;  ///< by (source, destination); either may be kHostMemory
  using Ends = std::tuple<int, int, int, int>;                                ///< front stage, its replica, back stage, its replica
  std::map<Ends, std::unique_ptr<BoundLink>> links_;
  std::vector<std::vector<planner::Offloaded>> offloaded_;                  ///< per device
  std::map<StageReplica*, std::unique_ptr<MailboxChannel>> host_channels_;  ///< of replicas that offload
  std::vector<std::vector<BoundAction>> rows_;
  std::optional<DirectLinks> direct_;  ///< between ranks
  std::vector<MomentPtr> callers_;     ///< per device: the end of the work that the calling thread queued on it before for_devices() began
  std::optional<RankWatch> watch_;     ///< where there are direct links
};

}  // namespace mptune::tuner
