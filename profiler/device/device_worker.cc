#include "profiler/device/device_worker.h"

namespace mptune::profiler {

DeviceWorker::DeviceWorker(std::shared_ptr<Device> device) : device_(std::move(device)), thread_([this] { loop(); }) {
  if (auto error = wait()) {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
    std::rethrow_exception(error);
  }
}

DeviceWorker::~DeviceWorker() {
  if (!thread_.joinable()) return;
  (void)wait();
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void DeviceWorker::post(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    job_ = std::move(job);
    error_ = nullptr;
    busy_ = true;
  }
  changed_.notify_all();
}

std::exception_ptr DeviceWorker::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_; });
  return std::exchange(error_, nullptr);
}

void DeviceWorker::run(std::function<void()> job) {
  post(std::move(job));
  if (auto error = wait()) std::rethrow_exception(error);
}

void DeviceWorker::loop() {
  std::unique_ptr<ThreadBinding> binding;
  std::exception_ptr error;
  try {
    binding = device_->bind_compute();
  } catch (...) {
    error = std::current_exception();
  }
  std::unique_lock lock(mutex_);
  while (true) {
    error_ = error;
    busy_ = false;
    changed_.notify_all();
    changed_.wait(lock, [this] { return job_ || stop_; });
    if (stop_) return;
    auto job = std::exchange(job_, nullptr);
    lock.unlock();
    error = nullptr;
    try {
      job();
    } catch (...) {
      error = std::current_exception();
    }
    job = nullptr;  // frees captured values on this thread, before wait() returns
    lock.lock();
  }
}

}  // namespace mptune::profiler
