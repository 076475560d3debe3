#pragma once

#include <vector>

#include "mptune/profiler/analyze/idle.h"
#include "mptune/profiler/analyze/step_work.h"
#include "mptune/profiler/analyze/typical_times.h"

namespace mptune {

/// Splits what devices waited for each other in one step, by replays that each add one trouble:
///
///     idle of a device   balanced   + copies    + uneven stages + slow devices + what happened   recorded
///     increment          structural   copy_wait   imbalance       straggler      jitter            host
///
/// `host` is what the replay of the recorded durations does not idle: delays of other devices' hosts that were handed on.
/// What `direct` already names (copy waits, host) is taken off its increment, negative increments count nothing, and the parts are scaled
/// to `direct.dependency`, the last one takes the rounding. Work without stages tells nothing: all of it is unexplained then.
/// `idle` is the recorded idle time. Result: the causes of `direct` with the dependency wait added; they sum to `idle` where
/// direct's parts do. One per device.
[[nodiscard]] std::vector<IdleCauses> split_dependencies(const StepWork& step, const TypicalTimes& times,
                                                         const std::vector<DirectCauses>& direct, const std::vector<Nanoseconds>& idle,
                                                         const Trace& trace);

/// Idle time per device of a replay with these durations, up to the end of its last work; copies count on both of their devices.
[[nodiscard]] std::vector<Nanoseconds> replayed_idle(const StepWork& step, const Trace& trace, const std::vector<Nanoseconds>& durations);

}  // namespace mptune
