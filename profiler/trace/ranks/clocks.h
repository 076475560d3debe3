#pragma once

#include <optional>
#include <vector>

#include "profiler/trace/ranks/meetings.h"
#include "profiler/trace/values/communication.h"

namespace mptune::profiler {

/// How the clock of a recording differs from the common clock:  common = own + offset + drift * own,  times since the recording's start.
struct Clock {
  Nanoseconds offset{0};
  double drift = 0;
  [[nodiscard]] Nanoseconds common(Nanoseconds own) const;
  /// Returns the clock that applies `outer` to the times that this clock gives.
  [[nodiscard]] Clock then(const Clock& outer) const;
  /// Returns the inverse clock: from the common time to the own time.
  [[nodiscard]] Clock inverse() const;
};

/// How well two clocks are known to each other.
struct ClockFit {
  Clock clock;           ///< of `b`, with the time of `a` as the common time
  Nanoseconds error{0};  ///< how far apart the ends of common communications lie: nine tenths of them lie at most this far apart
};

/// The ends of one communication in two recordings, each on its own clock.
struct EndPair {
  Nanoseconds a{0};
  Nanoseconds b{0};
};

/// Fits the line on which most ends coincide (least trimmed squares: the half that lies closest together counts). A communication ends on
/// all its processes at the same time, except for small messages, whose sender need not wait for the receiver; these are in the other half.
/// Drift is looked for from 8 pairs on, which must span a millisecond. Returns nullopt without pairs.
[[nodiscard]] std::optional<ClockFit> fit_clock(const std::vector<EndPair>& ends);

/// How a recording's clock was found.
enum class ClockSource { reference, communications, wall_clock, none };

struct AlignedClock {
  Clock clock;
  ClockSource source = ClockSource::none;
  int towards = -1;       ///< of communications: index of the recording that it was compared with
  std::int64_t ends = 0;  ///< of communications: number of ends compared
  Nanoseconds error{0};   ///< of communications: ClockFit::error, with the errors of the recordings in between added
};

/// Returns the clocks of all recordings relative to the clock of the first one. Recordings are compared along the pairs that have most
/// communications in common; a recording without any is set by its wall clock, if both recordings know theirs or are parts of one file.
[[nodiscard]] std::vector<AlignedClock> align_clocks(const std::vector<RankRecording>& recordings, const Meetings& meetings);

}  // namespace mptune::profiler
