#include "profiler/measure/link_timing.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "profiler/device/copy_lane.h"
#include "profiler/device/device_worker.h"
#include "profiler/device/doorbell.h"
#include "profiler/device/list/device_list.h"
#include "profiler/trace/statistics/samples.h"

namespace mptune::profiler {

namespace {

// Idle time, long enough for the receiver and a lane's thread to sleep and their cores to enter idle states, as while a stage waits.
constexpr auto kIdle = std::chrono::milliseconds(3);

// Limits for throttled copies: time of one copy above 1 MiB, and of all copies of one size.
constexpr double kLongestCopySeconds = 0.1;
constexpr double kLongestSizeSeconds = 0.2;

constexpr std::size_t kFewestSizes = 2;  // enough to fit a line
constexpr std::int64_t kLargest = 16 << 20;
constexpr std::int64_t kLargestBetweenGpus = 256 << 20;

bool is_gpu(const Device& device) {
  return device.spec().kind == DeviceSpec::Kind::cuda;
}

/// A link between the compute threads of two devices, as in a step.
class TimedLink {
 public:
  TimedLink(const std::shared_ptr<Device>& source, const std::shared_ptr<Device>& destination, const LinkThrottle& throttle)
      : sender_(source), receiver_(destination), lane_(source, destination, throttle) {}

  /// Returns the median time of `copies` copies of `bytes` bytes, after one more copy [s].
  [[nodiscard]] double median_of(std::int64_t bytes, int copies, std::size_t tensors = 1) {
    const at::Tensor tensor = sender_.device().empty_like(at::empty({bytes / 4}, at::kMeta));
    // The first write maps the host's pages, so that the copies do not have to.
    if (tensor.is_cpu()) tensor.zero_();
    const std::vector<at::Tensor> sent(tensors, tensor);
    (void)copy_once(sent);
    std::vector<double> seconds;
    for (int i = 0; i < copies; ++i) seconds.push_back(copy_once(sent));
    return median(std::move(seconds));
  }

 private:
  /// Returns the time from sending over the idle link until the receiver, which waits for it, goes on [s].
  [[nodiscard]] double copy_once(const std::vector<at::Tensor>& tensors) {
    arrived_ = false;
    error_ = nullptr;
    SteadyClock::time_point start, end;
    receiver_.post([&] {
      bell_.wait([&] { return arrived_.load(); });
      end = SteadyClock::now();
    });
    std::this_thread::sleep_for(kIdle);
    sender_.run([&] {
      start = SteadyClock::now();
      send(tensors);
    });
    if (const auto failed = receiver_.wait()) std::rethrow_exception(failed);
    if (error_) std::rethrow_exception(error_);
    return std::chrono::duration<double>(end - start).count();
  }
  void send(const std::vector<at::Tensor>& tensors) {
    try {
      lane_.copy(
          tensors, [this](const CopyLane::Arrival& arrival) { finish(arrival.there); }, [this](std::exception_ptr error) { fail(error); });
    } catch (...) {
      fail(std::current_exception());
    }
  }
  void finish(const MomentPtr& there) {
    wait_for(there);
    arrived_ = true;
    bell_.ring();
  }
  void fail(std::exception_ptr error) {
    error_ = std::move(error);
    finish(nullptr);
  }

  // They outlive the lane's thread.
  Doorbell bell_;
  std::atomic<bool> arrived_{false};
  std::exception_ptr error_;
  DeviceWorker sender_, receiver_;
  CopyLane lane_;
};

}  // namespace

std::vector<CopyTime> sweep_link(const std::shared_ptr<Device>& source, const std::shared_ptr<Device>& destination,
                                 const LinkThrottle& throttle, int repeats, std::int64_t smallest_bytes, std::int64_t largest_bytes) {
  if (largest_bytes == 0) largest_bytes = is_gpu(*source) && is_gpu(*destination) ? kLargestBetweenGpus : kLargest;
  TimedLink link(source, destination, throttle);
  std::vector<CopyTime> times;
  for (std::int64_t bytes = smallest_bytes; bytes <= largest_bytes; bytes *= 4) {
    const double asked_s = throttle.seconds_for(bytes);
    if (bytes > 1 << 20 && asked_s > kLongestCopySeconds) break;
    const int counted = repeats * asked_s > kLongestSizeSeconds ? std::max(1, static_cast<int>(kLongestSizeSeconds / asked_s)) : repeats;
    try {
      times.push_back({bytes, link.median_of(bytes, counted)});
    } catch (const c10::OutOfMemoryError&) {
      if (times.size() < kFewestSizes) throw;
      break;  // what a device has no memory for is never sent to it
    }
  }
  return times;
}

double time_of_further_tensor(const std::shared_ptr<Device>& source, const std::shared_ptr<Device>& destination) {
  constexpr int kRepeats = 5;
  constexpr std::size_t kTensors = 33;
  constexpr std::int64_t kBytes = 4 << 10;
  TimedLink link(source, destination, {});
  const double one_s = link.median_of(kBytes, kRepeats), all_s = link.median_of(kBytes, kRepeats, kTensors);
  return std::max(0.0, all_s - one_s) / (kTensors - 1);
}

LinkCost fit_link(const std::vector<CopyTime>& times) {
  const std::int64_t large = std::min<std::int64_t>(256 << 10, times[times.size() - 2].bytes);
  std::vector<double> slopes;
  for (std::size_t i = 0; i < times.size(); ++i)
    for (std::size_t j = i + 1; j < times.size(); ++j)
      if (times[i].bytes >= large)
        slopes.push_back((times[j].seconds - times[i].seconds) / static_cast<double>(times[j].bytes - times[i].bytes));
  const double slope = std::max(median(slopes), 1e-13);
  std::vector<double> starts;
  for (const CopyTime& time : times)
    if (time.bytes < large || &time == &times.front()) starts.push_back(time.seconds - slope * static_cast<double>(time.bytes));
  LinkCost cost;
  cost.latency_s = std::max(0.0, median(starts));
  cost.bytes_per_second = 1 / slope;
  return cost;
}

}  // namespace mptune::profiler
