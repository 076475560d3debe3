#pragma once

#include <chrono>

namespace mptune {

using SteadyClock = std::chrono::steady_clock;

/// Makes this thread's timers as exact as the kernel allows (timer slack 1 ns instead of 50 us).
void make_timers_exact();

/// Returns at `deadline`, late by a few microseconds at most on a quiet machine: sleeps, then naps, then spins for at most 80 us.
/// The calling thread's timers should be exact.
void sleep_until(SteadyClock::time_point deadline);

}  // namespace mptune
