#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "mptune/profiler/device/device.h"
#include "mptune/profiler/device/precise_sleep.h"

namespace mptune {

/// Copies from one device to another, one after the other, on a thread of its own. Thread-safe; enqueueing never blocks.
/// Throttled, a copy of n bytes occupies the lane for latency + n / bytes_per_second; back-to-back copies are timed from each other's
/// deadline, so that lateness does not add up.
class CopyLane {
 public:
  /// Receives the copies in the order of the tensors, on the lane's thread, and when the copy began and ended.
  using Arrived = std::function<void(std::vector<at::Tensor> copies, SteadyClock::time_point began, SteadyClock::time_point ended)>;
  using Failed = std::function<void(std::exception_ptr)>;

  CopyLane(std::shared_ptr<Device> source, std::shared_ptr<Device> destination, LinkThrottle throttle);
  /// Finishes what is queued.
  ~CopyLane();
  CopyLane(const CopyLane&) = delete;
  CopyLane& operator=(const CopyLane&) = delete;

  /// Copies into receive slots: memory of the destination that is reused as soon as nobody refers to an earlier copy any more. Ends in
  /// one call of `arrived`, or of `failed` with what went wrong (no memory, a device that can't be had, an exception of `arrived`).
  void copy(std::vector<at::Tensor> tensors, Arrived arrived, Failed failed);
  /// Until the queue is empty and the lane idle. Not from `arrived` or `failed`, which run on the lane's thread.
  void drain();

 private:
  struct Job {
    std::vector<at::Tensor> tensors;
    Arrived arrived;
    Failed failed;
    SteadyClock::time_point enqueued;
  };
  void loop();
  void run(Job& job);
  [[nodiscard]] at::Tensor slot_for(const at::Tensor& tensor);

  std::shared_ptr<Device> source_;
  std::shared_ptr<Device> destination_;
  LinkThrottle throttle_;
  std::vector<at::Tensor> slots_;  ///< lane's thread only
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
