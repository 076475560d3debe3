#pragma once

/// Clocks of the emulated machine, and of the host under it.

#include "tests/emulation/machine/machine.h"

namespace emulation {

/// CLOCK_MONOTONIC.
[[nodiscard]] EMULATION_EXPORT Nanoseconds host_clock();

/// Sleeps until host_clock() is at least `time`.
void sleep_until(Nanoseconds time);

/// This thread's sleeps end as exactly as the kernel can.
void sleep_exactly();

}  // namespace emulation
