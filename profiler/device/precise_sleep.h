#pragma once

#include <chrono>

namespace mptune::profiler {

using SteadyClock = std::chrono::steady_clock;

/// Makes this thread's timers as exact as the kernel allows (timer slack 1 ns instead of 50 us).
void make_timers_exact();

/// Returns at `deadline`, on a quiet machine at most a few microseconds late. Sleeps, then naps, then spins for at most 80 us. Requires:
/// make_timers_exact() was called on this thread.
void sleep_until(SteadyClock::time_point deadline);

}  // namespace mptune::profiler
