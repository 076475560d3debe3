#include "mptune/profiler/device/copy_lane.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

namespace mptune {

CopyLane::CopyLane(std::shared_ptr<Device> source, std::shared_ptr<Device> destination, LinkThrottle throttle)
    : source_(std::move(source)), destination_(std::move(destination)), throttle_(throttle), thread_([this] { loop(); }) {}

CopyLane::~CopyLane() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CopyLane::copy(std::vector<at::Tensor> tensors, Arrived arrived, Failed failed) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back({std::move(tensors), std::move(arrived), std::move(failed), SteadyClock::now()});
  }
  changed_.notify_all();
}

void CopyLane::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
}

void CopyLane::loop() {
  std::unique_ptr<ThreadBinding> binding;
  try {
    binding = source_->bind_copy(*destination_);
  } catch (...) {
    bind_error_ = std::current_exception();
  }
  const at::NoGradGuard no_grad;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !queue_.empty() || stop_; });
    if (queue_.empty()) return;
    {
      Job job = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
      lock.unlock();
      run(job);
    }
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

void CopyLane::run(Job& job) {
  try {
    if (bind_error_) std::rethrow_exception(bind_error_);
    const auto began = SteadyClock::now();
    std::vector<at::Tensor> copies;
    std::int64_t bytes = 0;
    for (const at::Tensor& tensor : job.tensors) {
      at::Tensor slot = slot_for(tensor);
      slot.copy_(tensor);
      bytes += static_cast<std::int64_t>(tensor.nbytes());
      copies.push_back(slot.detach());
    }
    job.tensors.clear();
    if (const double seconds = throttle_.seconds_for(bytes); seconds > 0) {
      free_at_ =
          std::max(free_at_, job.enqueued) + std::chrono::duration_cast<SteadyClock::duration>(std::chrono::duration<double>(seconds));
      sleep_until(free_at_);
    }
    job.arrived(std::move(copies), began, SteadyClock::now());
  } catch (...) {
    job.failed(std::current_exception());
  }
}

at::Tensor CopyLane::slot_for(const at::Tensor& tensor) {
  // A slot is free when only this list refers to its storage.
  for (at::Tensor& slot : slots_)
    if (slot.storage().use_count() == 1 && slot.sizes() == tensor.sizes() && slot.scalar_type() == tensor.scalar_type()) return slot;
  slots_.push_back(destination_->empty_like(tensor));
  return slots_.back();
}

}  // namespace mptune
