#include "tests/emulation/cupti/clock.h"

#include <atomic>
#include <mutex>

#include "tests/emulation/machine/machine.h"

namespace emulation::cupti {

namespace {

/// Both clocks at one moment.
struct Moment {
  std::uint64_t gpu = 0;
  std::uint64_t client = 0;
};

struct Registration {
  std::mutex mutex;
  std::atomic<TimestampFunction> function = nullptr;
  Moment moment;
};

Registration& registration() {
  static Registration& object = *new Registration;
  return object;
}

std::uint64_t gpu_now() {
  return static_cast<std::uint64_t>(gpu_clock());
}

// The fastest of some readings counts: it was interrupted least.
Moment read_both(TimestampFunction function) {
  constexpr int kReadings = 10;
  Moment best;
  std::uint64_t shortest = UINT64_MAX;
  for (int i = 0; i < kReadings; ++i) {
    const std::uint64_t before = gpu_now();
    const std::uint64_t client = function();
    const std::uint64_t took = gpu_now() - before;
    if (took >= shortest) continue;
    shortest = took;
    best = {before + took / 2, client};
  }
  return best;
}

}  // namespace

void use_timestamps_of(TimestampFunction function) {
  Registration& current = registration();
  const std::lock_guard lock(current.mutex);
  current.moment = read_both(function);
  current.function = function;
}

std::uint64_t now() {
  const TimestampFunction function = registration().function.load(std::memory_order_acquire);
  return function == nullptr ? gpu_now() : function();
}

GpuTimes::GpuTimes() {
  Registration& current = registration();
  const TimestampFunction function = current.function.load(std::memory_order_acquire);
  if (function == nullptr) return;
  const std::lock_guard lock(current.mutex);
  const Moment last = read_both(function);
  differ_ = true;
  gpu_ = last.gpu;
  client_ = last.client;
  const auto gpu_span = static_cast<double>(last.gpu - current.moment.gpu);
  if (gpu_span > 0) rate_ = static_cast<double>(last.client - current.moment.client) / gpu_span;
}

std::uint64_t GpuTimes::converted(std::uint64_t gpu_time) const {
  if (!differ_ || gpu_time == 0) return gpu_time;
  const double ago = static_cast<double>(static_cast<std::int64_t>(gpu_ - gpu_time)) * rate_;
  return client_ - static_cast<std::uint64_t>(static_cast<std::int64_t>(ago));
}

}  // namespace emulation::cupti
