#include "profiler/device/copy_lane.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "profiler/base/index.h"
#include "profiler/device/list/device_list.h"

namespace mptune::profiler {

namespace {

/// Copies whose ends a lane remembers. A sender waits for one of the last few.
constexpr std::size_t kKnown = 8;

/// Dimensions ordered by stride, largest first.
std::vector<std::int64_t> memory_order(const at::Tensor& tensor) {
  std::vector<std::int64_t> order(as_index(tensor.dim()));
  std::iota(order.begin(), order.end(), 0);
  if (!tensor.is_contiguous())
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return tensor.stride(a) > tensor.stride(b); });
  return order;
}

/// Restores the dimensions of a tensor that arrived permuted by `order`, in place: the result is not a view of another tensor.
void restore(at::Tensor& arrived, const std::vector<std::int64_t>& order) {
  std::vector<std::int64_t> sizes(order.size()), strides(order.size());
  for (std::size_t place = 0; place < order.size(); ++place) {
    const auto dimension = as_index(order[place]);
    sizes[dimension] = arrived.size(static_cast<std::int64_t>(place));
    strides[dimension] = arrived.stride(static_cast<std::int64_t>(place));
  }
  arrived.as_strided_(sizes, strides);
}

/// Copies tensors and preserves their order of dimensions in memory. A reader may depend on it (`view`, the choice of a kernel).
Copied copy_as_they_lie(Copier& copier, const std::vector<at::Tensor>& tensors, const MomentPtr& ready) {
  std::vector<std::vector<std::int64_t>> orders;
  std::vector<at::Tensor> lying;
  for (const at::Tensor& tensor : tensors) {
    orders.push_back(memory_order(tensor));
    lying.push_back(tensor.permute(orders.back()));
  }
  Copied copied = copier.copy(lying, ready);
  for (std::size_t i = 0; i < orders.size(); ++i)
    if (!std::is_sorted(orders[i].begin(), orders[i].end())) restore(copied.tensors[i], orders[i]);
  return copied;
}

bool is_gpu(const Device& device) {
  return device.spec().kind == DeviceSpec::Kind::cuda;
}

}  // namespace

bool CopyLane::needs_thread(const Device& source, const Device& destination, const LinkThrottle& throttle) {
  return throttle != LinkThrottle() || is_gpu(source) || is_gpu(destination);
}

CopyLane::CopyLane(std::shared_ptr<Device> source, std::shared_ptr<Device> destination, LinkThrottle throttle)
    : source_(std::move(source)),
      destination_(std::move(destination)),
      throttle_(throttle),
      has_thread_(needs_thread(*source_, *destination_, throttle_)) {
  if (has_thread_)
    thread_ = std::thread([this] { loop(); });
  else
    copier_ = make_copier(source_, destination_, /*staged=*/false);
}

CopyLane::~CopyLane() {
  if (!has_thread_) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::int64_t CopyLane::copy(std::vector<at::Tensor> tensors, Arrived arrived, Failed failed) {
  Job job{std::move(tensors), std::move(arrived), std::move(failed), source_->now(), SteadyClock::now(), {}};
  if (!has_thread_) {
    run(std::move(job));
    return 0;
  }
  job.tag = current_tag();
  std::int64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(job));
    number = ++asked_;
  }
  changed_.notify_all();
  return number;
}

void CopyLane::await(std::int64_t copy) {
  MomentPtr made;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return enqueued_ >= copy; });
    // Copies are made one after the other: a copy older than the remembered ones was made before the first of these.
    const std::int64_t first_known = enqueued_ - static_cast<std::int64_t>(made_.size()) + 1;
    if (!made_.empty()) made = made_[as_index(std::max<std::int64_t>(copy - first_known, 0))];
  }
  wait_for(made);
}

void CopyLane::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
}

void CopyLane::loop() {
  std::unique_ptr<ThreadBinding> binding;
  try {
    binding = source_->bind_copy(*destination_);
    copier_ = make_copier(source_, destination_, throttle_ != LinkThrottle());
  } catch (...) {
    bind_error_ = std::current_exception();
  }
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !queue_.empty() || stop_; });
    if (queue_.empty()) break;
    Job job = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    MomentPtr made = run(std::move(job));
    lock.lock();
    ++enqueued_;
    // A failed copy counts as made when the copy before it was.
    made_.push_back(made || made_.empty() ? std::move(made) : made_.back());
    if (made_.size() > kKnown) made_.pop_front();
    busy_ = false;
    changed_.notify_all();
  }
  copier_.reset();
}

/// Returns the moment when the copy will have been made; null if it failed.
MomentPtr CopyLane::run(Job job) {
  try {
    if (bind_error_) std::rethrow_exception(bind_error_);
    return copy_now(job);
  } catch (...) {
    job.failed(std::current_exception());
    return nullptr;
  }
}

MomentPtr CopyLane::copy_now(Job& job) {
  const at::NoGradGuard no_grad;
  const TagScope scope(job.tag);
  const bool throttled = throttle_ != LinkThrottle();
  // A throttled copy starts when the source has computed the tensors.
  if (throttled && !reached(job.ready)) {
    job.ready->wait();
    job.enqueued = SteadyClock::now();
  }
  const auto began = SteadyClock::now();
  Copied copied = copy_as_they_lie(*copier_, job.tensors, job.ready);
  job.tensors.clear();
  if (throttled) {
    std::int64_t bytes = 0;
    for (const at::Tensor& tensor : copied.tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
    keep_to_throttle(job, copied, bytes);
  }
  const MomentPtr made = copied.there;
  job.arrived({std::move(copied.tensors), std::move(copied.there), began, SteadyClock::now()});
  return made;
}

void CopyLane::keep_to_throttle(const Job& job, const Copied& copied, std::int64_t bytes) {
  wait_for(copied.there);
  const std::chrono::duration<double> asked(throttle_.seconds_for(bytes));
  free_at_ = std::max(free_at_, job.enqueued) + std::chrono::duration_cast<SteadyClock::duration>(asked);
  sleep_until(free_at_);
}

}  // namespace mptune::profiler
