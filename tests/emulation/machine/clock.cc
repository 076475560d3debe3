#include "tests/emulation/machine/clock.h"

#include <sys/prctl.h>

#include <cerrno>
#include <ctime>

namespace emulation {

namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;

}  // namespace

Nanoseconds host_clock() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

void sleep_until(Nanoseconds time) {
  const timespec until{time / kSecond, time % kSecond};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

void sleep_exactly() {
  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
}

Nanoseconds on_gpu_clock(Nanoseconds host_time) {
  static const double drift = setting("CLOCK_PPM", 0) * 1e-6;
  static const auto offset = static_cast<Nanoseconds>(setting("CLOCK_NS", 0));
  return host_time + offset + static_cast<Nanoseconds>(drift * static_cast<double>(host_time));
}

Nanoseconds gpu_clock() {
  return on_gpu_clock(host_clock());
}

}  // namespace emulation
