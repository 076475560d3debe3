#pragma once

#include <atomic>
#include <chrono>

namespace mptune::profiler {

/// A thread waits here until other threads have done something for it. Thread-safe; must outlive the calls of its functions.
class Doorbell {
 public:
  /// Waiting threads keep their core for `spin` before they sleep, since waking up takes tens of microseconds. Zero: they sleep at once,
  /// which is right where threads share cores.
  explicit Doorbell(std::chrono::nanoseconds spin = {}) : spin_(spin) {}
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  /// Call it after changing what `ready` of a waiting thread reads. Never blocks.
  void ring();
  /// Blocks until `ready()` returns true. The waiting thread calls it at once and after every ring; an exception of `ready()` ends the
  /// wait.
  template <typename Ready>
  void wait(const Ready& ready) {
    for (unsigned seen = rings_.load(); !ready(); seen = rings_.load()) wait_for_ring_after(seen);
  }

 private:
  void wait_for_ring_after(unsigned seen) const;

  const std::chrono::nanoseconds spin_;
  std::atomic<unsigned> rings_{0};
};

}  // namespace mptune::profiler
