#pragma once

#include <optional>
#include <vector>

#include "profiler/ranks/meetings.h"
#include "profiler/trace/communication.h"

namespace mptune::profiler {

/// How the clock of a recording differs from the common one:  common = own + offset + drift * own,  times since the recording's start.
struct Clock {
  Nanoseconds offset{0};
  double drift = 0;
  [[nodiscard]] Nanoseconds common(Nanoseconds own) const;
  /// The clock behind another: what `outer` makes of the times that this one makes.
  [[nodiscard]] Clock then(const Clock& outer) const;
  /// From the common clock to the own one.
  [[nodiscard]] Clock inverse() const;
};

/// How well two clocks are known to each other.
struct ClockFit {
  Clock clock;           ///< of `b`, where common is the time of `a`
  Nanoseconds error{0};  ///< how far the ends of what both did lie apart: nine tenths of them at most
};

/// Ends of one communication on two recordings, each on its own clock.
struct EndPair {
  Nanoseconds a{0};
  Nanoseconds b{0};
};

/// Fits the line on which most ends coincide (least trimmed squares: the half that lies closest together counts). A communication ends on
/// all its processes at the same time, but for small messages that a sender may leave behind; these are the rest.
/// Drift is looked for from 8 pairs on, which span a millisecond. Nothing without pairs.
[[nodiscard]] std::optional<ClockFit> fit_clock(const std::vector<EndPair>& ends);

/// How a recording's clock was found.
enum class ClockSource { reference, communications, wall_clock, none };

struct AlignedClock {
  Clock clock;
  ClockSource source = ClockSource::none;
  int towards = -1;       ///< of communications: index of the recording that it was compared with
  std::int64_t ends = 0;  ///< of communications: number of ends compared
  Nanoseconds error{0};   ///< of communications: ClockFit::error, those of the recordings in between added
};

/// The clocks of all recordings towards that of the first one. Recordings are compared along the pairs that have most communications in
/// common; one without any is set by its wall clock, where both recordings know theirs or are parts of
/// one file.
[[nodiscard]] std::vector<AlignedClock> align_clocks(const std::vector<RankRecording>& recordings, const Meetings& meetings);

}  // namespace mptune::profiler
