#pragma once

/// Writes records of what the machine observes, and calls the subscriber.

#include <cstdint>

namespace emulation::cupti {

/// Begins to observe the machine, at the first call of this: CUPTI, too, stays in a process once it is there.
void attach();

/// Records of CUDA events have the time when the stream passed them.
void record_event_times(bool yes);

}  // namespace emulation::cupti
