#pragma once

#include <vector>

#include "profiler/trace/analyze/idle.h"
#include "profiler/trace/analyze/step_work.h"
#include "profiler/trace/analyze/typical_times.h"

namespace mptune::profiler {

/// Splits the time that devices waited for each other in one step. Each replay adds one source of delay to the one before:
///
///     idle of a device   balanced   + copies    + uneven stages + slow devices + what happened   recorded
///     increment          structural   copy_wait   imbalance       straggler      jitter            host
///
/// `host` is idle time beyond the replay of the recorded durations: delays by the hosts of other devices.
/// Causes that `direct` already holds (copy_wait, host) are subtracted from their increment; negative increments count as 0.
/// The increments are scaled to `direct.dependency`; the last non-zero one takes the rounding error.
/// If no work has a stage, `direct.dependency` is unexplained.
///
/// `idle` is the recorded idle time per device. Result per device: the causes of `direct` with `dependency` split among them.
[[nodiscard]] std::vector<IdleCauses> split_dependencies(const StepWork& step, const TypicalTimes& times,
                                                         const std::vector<DirectCauses>& direct, const std::vector<Nanoseconds>& idle,
                                                         const Trace& trace);

/// Returns the idle time per device in a replay with these durations, up to the end of the last work. A copy counts on both of its devices.
[[nodiscard]] std::vector<Nanoseconds> replayed_idle(const StepWork& step, const Trace& trace, const std::vector<Nanoseconds>& durations);

}  // namespace mptune::profiler
