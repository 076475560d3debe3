#include "profiler/device/doorbell.h"

namespace mptune::profiler {

namespace {

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void Doorbell::ring() {
  rings_.fetch_add(1);
  rings_.notify_all();
}

void Doorbell::wait_for_ring_after(unsigned seen) const {
  using Clock = std::chrono::steady_clock;
  if (spin_ > spin_.zero())
    for (const auto end = Clock::now() + spin_; Clock::now() < end;)
      for (int i = 0; i < 16; ++i) {
        if (rings_.load() != seen) return;
        pause_core();
      }
  rings_.wait(seen);
}

}  // namespace mptune::profiler
