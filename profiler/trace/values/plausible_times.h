#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "profiler/trace/values/intervals.h"
#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// Longest recording a reader accepts, 2^55 ns, about 14 months: sums of times over devices and steps stay far from overflow.
inline constexpr Nanoseconds kLongestRecording{std::int64_t{1} << 55};

/// It takes this many other records to say that one of them makes the recording too long: between fewer, long gaps are usual.
inline constexpr std::size_t kLeastOthers = 10;

/// Longest time by which the clocks of host and device may differ: work stamped at most this much before its launch still has that launch.
inline constexpr Nanoseconds kMostClockSkew{10'000};

/// Notes a record that a reader leaves out or cuts, up to kMostImplausible of them; records that are left out count in `quality.dropped`.
void note_implausible(Trace& trace, ImplausibleTime record);

/// The times of a record of a device's work. Requires: within 2^61 ns of 0, not backward.
struct TimedRecord {
  Nanoseconds start{0};
  Nanoseconds end{0};
  std::int64_t call = 0;  ///< the records that one call launched (a CUDA graph) may overlap; <= 0: unknown
  int stream = -1;        ///< work with the same number ran one after another; -1: a wait, or work that may overlap others: never too long
};

/// Returns the median of the starts; 0 if there are none. O(n).
[[nodiscard]] Nanoseconds middle_start(const std::vector<TimedRecord>& records);
/// False if a time lies further from `middle` than any recording is long.
[[nodiscard]] bool is_near(Nanoseconds middle, Nanoseconds start, Nanoseconds end);

/// A record by its index, and what is wrong with its times.
using TimeFaults = std::vector<std::pair<std::size_t, ImplausibleTime::Fault>>;

/// Returns the records that can't be right, ordered by index:
/// - far: it is not near the median of at least three records.
/// - alone: without it the recording would be less than half as long, though it has kLeastOthers others. Waits are never alone.
///
///       others  |.. .. ... .|
///       record                                  |..|     or    |...........................|
///
/// - too_long: it lasts more than half of a window, and work of its stream that another call launched starts and ends within it, more than
///   `rounding` before its end. Windows are the steps, each to the start of the next, or the whole recording.
///
/// `others` is asked at most once, and only where a record would be alone: what else the file holds (calls, ranges), from its first start
/// to its last end; empty if nothing. Steps: ordered by start. O(n log n), O(n) where no record is long.
[[nodiscard]] TimeFaults implausible_times(const std::vector<TimedRecord>& records, const std::vector<StepWindow>& steps,
                                           Nanoseconds rounding, const std::function<TimeInterval()>& others);

}  // namespace mptune::profiler
