#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "profiler/device/copier.h"
#include "profiler/device/list/device_list.h"
#include "profiler/device/precise_sleep.h"
#include "profiler/device/tag_scope.h"

namespace mptune::profiler {

/// Copies from one device to another. Thread-safe.
/// Unthrottled copies between devices of the host are made by the calling thread: waking another one takes longer than most copies.
/// All others are made one at a time on the lane's own thread, and enqueueing never blocks. On a throttled link, a copy of n bytes takes at
/// least latency + n / bytes_per_second. Back-to-back copies are timed from the previous deadline, so that delays do not add up. Throttled
/// copies between GPUs are staged through host memory.
class CopyLane {
 public:
  struct Arrival {
    std::vector<at::Tensor> tensors;  ///< ordered as passed to copy()
    MomentPtr there;                  ///< the destination may read them after this moment
    SteadyClock::time_point began;
    SteadyClock::time_point ended;  ///< for a GPU: when the copy was enqueued, or (if throttled) when it was done
  };
  /// Called on the lane's thread if it has one, else before copy() returns.
  using Arrived = std::function<void(Arrival arrival)>;
  using Failed = std::function<void(std::exception_ptr)>;

  /// Returns true if a lane between these devices has a thread.
  [[nodiscard]] static bool needs_thread(const Device& source, const Device& destination, const LinkThrottle& throttle);

  CopyLane(std::shared_ptr<Device> source, std::shared_ptr<Device> destination, LinkThrottle throttle);
  /// Finishes all queued copies.
  ~CopyLane();
  CopyLane(const CopyLane&) = delete;
  CopyLane& operator=(const CopyLane&) = delete;

  /// Copies the tensors, as computed by the work that the source's compute lane was given so far, into communication buffers (see Copier).
  /// Ends in one call of `arrived`, or of `failed` with what went wrong (no memory, a device that is not available, an exception of
  /// `arrived`). The copy carries the caller's tag. The arrived tensors have their dimensions in the same order in memory, without gaps.
  /// Returns the copy's number, from 1 on; 0 if the calling thread has made the copy.
  std::int64_t copy(std::vector<at::Tensor> tensors, Arrived arrived, Failed failed);
  /// Blocks until the copy of this number and those before it have been made or have failed: nothing reads their sources any more. Must not
  /// be called from `arrived` or `failed`. Throws c10::Error if a device has failed.
  void await(std::int64_t copy);
  /// Blocks until all copies asked for have arrived or failed (see Arrival: a GPU may still be making them). Must not be called from
  /// `arrived` or `failed`.
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
  MomentPtr run(Job job);
  MomentPtr copy_now(Job& job);
  void keep_to_throttle(const Job& job, const Copied& copied, std::int64_t bytes);

  std::shared_ptr<Device> source_;
  std::shared_ptr<Device> destination_;
  LinkThrottle throttle_;
  const bool has_thread_;
  std::unique_ptr<Copier> copier_;  ///< used by the lane's thread only, like free_at_; without a thread, by any
  SteadyClock::time_point free_at_{};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> queue_;
  std::int64_t asked_ = 0;      ///< copies since the lane was made
  std::int64_t enqueued_ = 0;   ///< copies that the devices were told to make
  std::deque<MomentPtr> made_;  ///< when the last few enqueued copies will have been made
  bool busy_ = false;
  bool stop_ = false;
  std::exception_ptr bind_error_;
  std::thread thread_;
};

}  // namespace mptune::profiler
