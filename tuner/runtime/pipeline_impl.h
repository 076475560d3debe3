#pragma once

#include <algorithm>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "mptune/profiler/device/copy_lane.h"
#include "mptune/profiler/device/device_worker.h"
#include "mptune/tuner/runtime/channel.h"
#include "mptune/tuner/runtime/pipeline.h"
#include "mptune/tuner/runtime/stage_replica.h"

namespace mptune {

/// The first exception of a step; the others drain.
class FirstError {
 public:
  /// True for the first one since take().
  bool set(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (error_) return false;
    error_ = std::move(error);
    return true;
  }
  [[nodiscard]] std::exception_ptr take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(error_, nullptr);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
};

/// An action of a device's row, ready to run, with its name and NVTX range.
struct BoundAction {
  Action action;
  std::string text;
  StageReplica* stage = nullptr;
  Channel* front = nullptr;  ///< to the stage before, for this micro-batch
  Channel* back = nullptr;   ///< to the stage behind
};

/// Workers, stages, lanes and channels of a plan, and one step through them. The calling thread of Pipeline drives it.
struct Pipeline::Impl {
  Plan plan;
  PipelineOptions options;
  std::vector<std::shared_ptr<Device>> devices;
  // Destroyed from the bottom up: lanes finish before workers, workers free their stages' tensors.
  std::vector<std::unique_ptr<DeviceWorker>> workers;
  std::vector<std::vector<std::unique_ptr<StageReplica>>> stages;                   ///< [stage][replica]
  std::map<std::pair<int, int>, std::unique_ptr<CopyLane>> lanes;                   ///< by (source, destination)
  std::map<std::tuple<int, int, int>, std::unique_ptr<InProcessChannel>> channels;  ///< by (front stage, its replica, back replica)
  std::vector<std::vector<BoundAction>> rows;
  std::vector<std::int64_t> first_samples;
  FirstError first_error;
  HostCollector* collector = nullptr;
  TagSink* gpus = nullptr;
  std::int64_t steps = 0;
  bool refresh_copies = false;  ///< replicas and tied copies have older values than the first

  /// A parameter that several stages use: the first holder is the one to train.
  struct Tied {
    int stage = 0;
    at::Tensor first;                ///< of the stage's first replica
    std::vector<at::Tensor> copies;  ///< of the first replicas of later stages, in their order
  };
  std::map<std::string, Tied> tied;

  std::vector<MomentPtr> callers;  ///< per device: the end of what the calling thread gave it before the workers began

  // of the current step
  Tensors inputs;
  at::Tensor target;

  Impl(Model model, const Plan& the_plan, const PipelineOptions& the_options, std::vector<std::shared_ptr<Device>> the_devices);
  ~Impl();

  void find_tied();
  void make_channels();
  CopyLane* lane(int source, int destination);
  void bind_rows();
  void for_devices(const std::function<void(int device)>& work);
  void fail(std::exception_ptr error);
  void run_row(int device, Accumulate accumulate);
  void prepare_stages(int device, Accumulate accumulate);
  void forward(const BoundAction& bound);
  void backward(const BoundAction& bound);
  Tensors receive(Channel& channel, MessageTag tag, const BoundAction& bound);
  void refresh(StageReplica& replica, int device);
  void finish_stages(int device);
  void sum_tied(int device);
  void recover();
  [[nodiscard]] Tag tag_of(const BoundAction& bound) const {
    return {static_cast<int>(steps), bound.action.stage, bound.action.microbatch, -1, bound.stage->replica()};
  }
  [[nodiscard]] int device_of_replica(const StageReplica& replica) const {
    return plan.stages[static_cast<std::size_t>(replica.stage())].devices[static_cast<std::size_t>(replica.replica())];
  }
  void record_compute(StageReplica& replica);
  void record_copies(int front_stage, int source, int destination, InProcessChannel& channel);
  [[nodiscard]] bool has_replicas() const {
    return std::any_of(stages.begin(), stages.end(), [](const auto& replicas) { return replicas.size() > 1; });
  }
};

}  // namespace mptune
