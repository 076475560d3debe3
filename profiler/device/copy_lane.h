#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "mptune/profiler/collect/tag_scope.h"
#include "mptune/profiler/device/copier.h"
#include "mptune/profiler/device/device_list.h"
#include "mptune/profiler/device/precise_sleep.h"

namespace mptune {

/// Copies from one device to another, one after the other, on a thread of its own. Thread-safe; enqueueing never blocks.
/// Throttled, a copy of n bytes occupies the lane for latency + n / bytes_per_second; back-to-back copies are timed from each other's
/// deadline, so that lateness does not add up. Copies between GPUs are then staged through host memory.
class CopyLane {
 public:
  struct Arrival {
    std::vector<at::Tensor> tensors;  ///< in the order they were given in
    MomentPtr there;                  ///< from when on the destination may read them
    SteadyClock::time_point began;
    SteadyClock::time_point ended;  ///< of a GPU's copy: when it was handed to the GPU, or where it is throttled, when it was done
  };
  /// Called on the lane's thread.
  using Arrived = std::function<void(Arrival arrival)>;
  using Failed = std::function<void(std::exception_ptr)>;

  CopyLane(std::shared_ptr<Device> source, std::shared_ptr<Device> destination, LinkThrottle throttle);
  /// Finishes what is queued.
  ~CopyLane();
  CopyLane(const CopyLane&) = delete;
  CopyLane& operator=(const CopyLane&) = delete;

  /// Copies what the source's compute lane has been told to make by now into communication buffers (see Copier). Ends in one call of
  /// `arrived`, or of `failed` with what went wrong (no memory, a device that can't be had, an exception of `arrived`). The copy carries
  /// the caller's tag. What arrives has its dimensions in the same order in memory, without gaps.
  void copy(std::vector<at::Tensor> tensors, Arrived arrived, Failed failed);
  /// Until the queue is empty and the lane idle. Not from `arrived` or `failed`, which run on the lane's thread.
  void drain();

 private:
  struct Job {
    std::vector<at::Tensor> tensors;
    Arrived arrived;
    Failed failed;
    MomentPtr ready;
    SteadyClock::time_point enqueued;
    CarriedTag tag;
  };
  void loop();
  void run(Job& job);
  void keep_to_throttle(const Job& job, const Copied& copied, std::int64_t bytes);

  std::shared_ptr<Device> source_;
  std::shared_ptr<Device> destination_;
  LinkThrottle throttle_;
  std::unique_ptr<Copier> copier_;  ///< lane's thread only, as what follows
  SteadyClock::time_point free_at_{};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> queue_;
  bool busy_ = false;
  bool stop_ = false;
  std::exception_ptr bind_error_;
  std::thread thread_;
};

}  // namespace mptune
