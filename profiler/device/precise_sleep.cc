#include "profiler/device/precise_sleep.h"

#include <sys/prctl.h>

#include <thread>

namespace mptune::profiler {

namespace {

// A processor wakes up late after a long sleep, on a virtual machine by up to half a millisecond. After a short nap it is a few
// microseconds late.
constexpr auto kLongSleepLateness = std::chrono::microseconds(500);
constexpr auto kNap = std::chrono::microseconds(20);
constexpr auto kNapLateness = std::chrono::microseconds(80);

}  // namespace

void make_timers_exact() {
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
}

void sleep_until(SteadyClock::time_point deadline) {
  if (SteadyClock::now() < deadline - kLongSleepLateness) std::this_thread::sleep_until(deadline - kLongSleepLateness);
  while (SteadyClock::now() < deadline - kNapLateness) std::this_thread::sleep_for(kNap);
  while (SteadyClock::now() < deadline) {
  }
}

}  // namespace mptune::profiler
