#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "profiler/trace/ranks/clocks.h"
#include "profiler/trace/ranks/meetings.h"
#include "profiler/trace/values/communication.h"

namespace mptune::profiler {

/// The time that recordings without steps have in common.
struct CommonWindow {
  Nanoseconds start{0};               ///< on the common clock: when the last of them has its first event
  Nanoseconds end{0};                 ///< when the first of them has its last event
  std::vector<std::int64_t> outside;  ///< by recording: communications without counterpart that lie beyond it
};

/// Returns the common window of recordings that cover different times: a communication has no counterpart because its partner's recording
/// had not begun, or had ended. Returns nullopt if the recordings have steps, if a clock is not known, if nothing lies beyond the window,
/// or if the window is empty. Requires: meetings and clocks of these recordings.
[[nodiscard]] std::optional<CommonWindow> common_window(const std::vector<RankRecording>& recordings,
                                                        const std::vector<AlignedClock>& clocks, const Meetings& meetings);

}  // namespace mptune::profiler
