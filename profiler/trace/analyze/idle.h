#pragma once

#include <vector>

#include "profiler/trace/analyze/breakdown.h"
#include "profiler/trace/analyze/busy.h"

namespace mptune::profiler {

/// The causes of one device's idle time in one step that can be read directly at each idle interval.
struct DirectCauses {
  IdleCauses causes;          ///< host, copy_wait, sync, profiler, unexplained
  Nanoseconds dependency{0};  ///< waits for work of other devices; split_dependencies() splits them further
};

/// A part of a device's idle time that has one cause.
struct IdlePart {
  TimeInterval time;
  Nanoseconds IdleCauses::*cause = nullptr;  ///< nullptr: waits for work of other devices, as DirectCauses::dependency
};

/// Attributes every idle interval of every device to what its next compute event waited for:
///
///     idle  |<-- dependency -->|<-- copy wait -->|<------- host ------->|
///      idle begins       data produced     data arrived         next event starts
///
/// - Launches on GPUs: if the next event is launched after the device became idle and its data had arrived, the time up to the launch's end
///   is host time: until then the event could not have begun. That time is sync while a call that launched nothing blocked that thread, and
///   profiler while the recorder did.
/// - On GPUs at most kLaunchLatency after launch and data is host time; the rest is unexplained.
/// - After its last event a device waits for the last work of all devices (dependency); the time after that is host time.
/// - In a recording without launches, only EventKind::host events count as host, and only the recorder's work as profiler.
///   The rest is unexplained.
/// - Without launches and edges, all idle time is unexplained.
///
/// Requires: events ordered by start. Result: [window][device].
[[nodiscard]] std::vector<std::vector<DirectCauses>> direct_causes(const Trace& trace, const std::vector<Busy>& busy,
                                                                   const std::vector<StepWindow>& windows);

/// Returns the same causes as parts of the idle time in one step, by start: what a timeline shows. Result: [device]. Requires and throws
/// what busy_times does.
[[nodiscard]] std::vector<std::vector<IdlePart>> idle_parts(const Trace& trace, const StepWindow& step);

/// Longest normal time from the end of a launch to the start of its kernel on an idle GPU.
inline constexpr Nanoseconds kLaunchLatency{20'000};

}  // namespace mptune::profiler
