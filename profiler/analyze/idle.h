#pragma once

#include <vector>

#include "mptune/profiler/analyze/breakdown.h"
#include "mptune/profiler/analyze/busy.h"

namespace mptune {

/// Why devices idled in one step, as far as the recording shows it at the place of the idle interval itself.
struct DirectCauses {
  IdleCauses causes;          ///< host, copy_wait, sync, profiler, unexplained
  Nanoseconds dependency{0};  ///< waited for work of another device: what the replays split
};

/// Gives every idle interval of every device to what its next compute event waited for, by this precedence:
///
///     idle  |<-- dependency -->|<-- copy wait -->|<------- host ------->|
///           a              data made        data there         next event starts
///
/// The launch of the next event, where it is a call of its own (GPUs), must have come before the device fell idle; time up to its end is
/// else host, or sync where a call that started nothing held that thread, or profiler where the recorder did. Behind the launch and the
/// data up to kLaunchLatency is host too, what is left unexplained. After a device's last event it waits for the other devices' last.
/// A recording without launches shows of the host only the recorder and What::host events: what else would be host is unexplained.
/// Without edges, too, all is unexplained.
/// Requires: events ordered by start. Result: [window][device].
[[nodiscard]] std::vector<std::vector<DirectCauses>> direct_causes(const Trace& trace, const std::vector<Busy>& busy,
                                                                   const std::vector<StepWindow>& windows);

/// From the end of a launch to the start of its kernel on an idle GPU takes at most this long.
inline constexpr Nanoseconds kLaunchLatency{20'000};

}  // namespace mptune
