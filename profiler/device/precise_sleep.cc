#include "mptune/profiler/device/precise_sleep.h"

#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <thread>

namespace mptune {

namespace {

SteadyClock::duration measured_lateness() {
  std::array<SteadyClock::duration, 15> late{};
  for (auto& l : late) {
    const auto deadline = SteadyClock::now() + std::chrono::microseconds(200);
    std::this_thread::sleep_until(deadline);
    l = SteadyClock::now() - deadline;
  }
  std::nth_element(late.begin(), late.begin() + late.size() / 2, late.end());
  return std::clamp<SteadyClock::duration>(late[late.size() / 2], std::chrono::microseconds(1), std::chrono::microseconds(60));
}

}  // namespace

void make_timers_exact() { prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); }

void sleep_until(SteadyClock::time_point deadline) {
  static const SteadyClock::duration lateness = [] {
    make_timers_exact();
    return measured_lateness();
  }();
  const auto early = deadline - lateness;
  if (SteadyClock::now() < early) std::this_thread::sleep_until(early);
  while (SteadyClock::now() < deadline) {
  }
}

}  // namespace mptune
