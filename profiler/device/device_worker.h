#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "profiler/device/device.h"

namespace mptune::profiler {

/// The compute thread of a device, owned and joined by this object. Runs one job at a time.
/// post() and wait() are called by one owner thread.
class DeviceWorker {
 public:
  /// Starts the thread and binds it to the device. Throws what binding throws.
  explicit DeviceWorker(std::shared_ptr<Device> device);
  ~DeviceWorker();
  DeviceWorker(const DeviceWorker&) = delete;
  DeviceWorker& operator=(const DeviceWorker&) = delete;

  [[nodiscard]] Device& device() { return *device_; }

  /// Requires: no job is running.
  void post(std::function<void()> job);
  /// Blocks until the posted job is done. Returns its exception, or null.
  [[nodiscard]] std::exception_ptr wait();
  /// Posts the job, waits for it and rethrows its exception.
  void run(std::function<void()> job);

 private:
  void loop();

  std::shared_ptr<Device> device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> job_;
  std::exception_ptr error_;
  bool busy_ = true;  ///< binding is the first job
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace mptune::profiler
