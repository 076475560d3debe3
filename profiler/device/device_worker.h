#pragma once

#include <c10/util/Exception.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "profiler/device/device.h"
#include "profiler/device/doorbell.h"

namespace mptune::profiler {

/// Returns the first error of a GPU in this process, in one line, with the device and the layer in which it was noticed, as far as the
/// first calling thread knows them. Kernels run later than they are launched, and what follows the first error fails as well. Thread-safe.
[[nodiscard]] std::string first_gpu_error(const c10::AcceleratorError& error);

/// The compute thread of a device, owned and joined by this object. Runs one job at a time.
/// post() and wait() are called by one owner thread. On a device with several cores, post() ends the idle threads of the owner's parallel
/// regions: GNU's OpenMP would count them as busy, and the device's own threads would sleep between parallel regions.
class DeviceWorker {
 public:
  /// Starts the thread and binds it to the device. Throws what binding throws. `spin`: how long the thread and its owner keep their cores
  /// while they wait for each other (see Doorbell).
  explicit DeviceWorker(std::shared_ptr<Device> device, std::chrono::nanoseconds spin = {});
  ~DeviceWorker();
  DeviceWorker(const DeviceWorker&) = delete;
  DeviceWorker& operator=(const DeviceWorker&) = delete;

  [[nodiscard]] Device& device() { return *device_; }

  /// From the next job on, jobs use `count` intra-op threads, at most one per core of the device, instead of one per core. Blocks.
  /// Requires: no job is running.
  void use_threads(int count);

  /// Requires: no job is running.
  void post(std::function<void()> job);
  /// Blocks until the posted job is done. Returns its exception, or null.
  [[nodiscard]] std::exception_ptr wait();
  /// Posts the job, waits for it and rethrows its exception.
  void run(std::function<void()> job);

 private:
  /// Whose turn it is: job_ and error_ are used by the thread while it is busy, else by the owner.
  enum class State { busy, idle, stopping };
  void hand_over(State state);
  void loop();
  void leave_cores_to_spinning_threads();

  std::shared_ptr<Device> device_;
  Doorbell to_thread_, to_owner_;
  std::function<void()> job_;
  std::exception_ptr error_;
  bool ends_parallel_threads_ = false;     ///< after the job; used like it
  int threads_ = 1;                        ///< intra-op, of jobs
  std::atomic<State> state_{State::busy};  ///< binding is the first job
  std::thread thread_;
};

}  // namespace mptune::profiler
