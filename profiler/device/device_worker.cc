#include "profiler/device/device_worker.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "profiler/device/thread_count.h"

namespace mptune::profiler {

namespace {

/// OpenMP threads that all workers of this process may keep, beside their own.
std::atomic<int> parallel_threads{0};

std::string& own_device() {
  thread_local std::string name;
  return name;
}

int most_threads(const Device& device) {
  return std::max(1, static_cast<int>(device.spec().cores.size()));
}

}  // namespace

std::string first_gpu_error(const c10::AcceleratorError& error) {
  static std::mutex mutex;
  static std::string first;
  const std::lock_guard lock(mutex);
  if (!first.empty()) return first;
  first = error.msg().substr(0, error.msg().find('\n'));
  // LibTorch's own threads for a GPU have that GPU as their current device.
  first += " on " + (own_device().empty() ? c10::impl::VirtualGuardImpl(at::kCUDA).getDevice().str() : own_device());
  for (const std::string& context : error.context()) first += ", noticed " + context;
  return first;
}

DeviceWorker::DeviceWorker(std::shared_ptr<Device> device, std::chrono::nanoseconds spin)
    : device_(std::move(device)), to_thread_(spin), to_owner_(spin), threads_(most_threads(*device_)), thread_([this] { loop(); }) {
  if (auto error = wait()) {
    hand_over(State::stopping);
    thread_.join();
    std::rethrow_exception(error);
  }
  parallel_threads += threads_ - 1;
}

DeviceWorker::~DeviceWorker() {
  (void)wait();
  hand_over(State::stopping);
  thread_.join();
  parallel_threads -= threads_ - 1;
}

void DeviceWorker::use_threads(int count) {
  const int threads = std::clamp(count, 1, most_threads(*device_));
  run([threads] { fix_thread_count(threads); });
  parallel_threads += threads - threads_;
  threads_ = threads;
}

void DeviceWorker::post(std::function<void()> job) {
  leave_cores_to_spinning_threads();
  job_ = std::move(job);
  error_ = nullptr;
  hand_over(State::busy);
}

std::exception_ptr DeviceWorker::wait() {
  to_owner_.wait([this] { return state_ != State::busy; });
  return std::exchange(error_, nullptr);
}

void DeviceWorker::run(std::function<void()> job) {
  post(std::move(job));
  if (auto error = wait()) std::rethrow_exception(error);
}

void DeviceWorker::hand_over(State state) {
  state_ = state;
  (state == State::idle ? to_owner_ : to_thread_).ring();
}

// GNU's OpenMP lets threads spin between parallel regions only while all that it has started, idle ones included, have a core each. A step
// of ResNet-50 on two cores takes 15 % longer when they sleep instead.
void DeviceWorker::leave_cores_to_spinning_threads() {
  if (threads_ == 1) return;
  end_idle_parallel_threads();
  ends_parallel_threads_ = 1 + parallel_threads > static_cast<int>(std::thread::hardware_concurrency());
}

void DeviceWorker::loop() {
  std::unique_ptr<ThreadBinding> binding;
  const auto guarded = [this](const auto& work) {
    try {
      work();
    } catch (const c10::AcceleratorError& error) {
      const c10::SourceLocation here{__func__, __FILE__, __LINE__};
      error_ = std::make_exception_ptr(c10::AcceleratorError(here, error.get_error_code(), first_gpu_error(error)));
    } catch (...) {
      error_ = std::current_exception();
    }
  };
  own_device() = device_->name();
  guarded([&] { binding = device_->bind_compute(); });
  while (true) {
    hand_over(State::idle);
    to_thread_.wait([this] { return state_ != State::idle; });
    if (state_ == State::stopping) return;
    guarded(job_);
    if (ends_parallel_threads_) end_idle_parallel_threads();
    job_ = nullptr;  // frees captured values on this thread, before wait() returns
  }
}

}  // namespace mptune::profiler
