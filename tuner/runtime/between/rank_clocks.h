#pragma once

#include <functional>
#include <vector>

#include "profiler/trace/ranks/clocks.h"
#include "profiler/trace/values/trace.h"
#include "tuner/runtime/between/rank_streams.h"

namespace mptune::tuner {

/// Gives the time of a rank's own clock, since that clock's epoch.
using OwnClock = std::function<Nanoseconds()>;
/// Time since the epoch of std::chrono::steady_clock.
[[nodiscard]] Nanoseconds steady_now();

/// How a rank's own clock differs from rank 0's at one moment.
struct ClockReading {
  Nanoseconds own{0};     ///< the moment, on the own clock
  Nanoseconds offset{0};  ///< rank 0's clock less the own one
  Nanoseconds error{0};   ///< half the shortest round trip: `offset` is not further off, however unequal the ways there and back are
};

/// Makes times on rank 0's clock of times on a rank's own.
struct RankClock {
  Nanoseconds reference{0};         ///< a time on the own clock, near those that are asked for
  profiler::Clock since_reference;  ///< of times since `reference`, on both clocks
  /// Times between the two readings are not further off than this, where the clocks differ by a line. Behind them the error grows.
  Nanoseconds error{0};

  [[nodiscard]] Nanoseconds common(Nanoseconds own) const { return reference + since_reference.common(own - reference); }
};

/// Reads the clocks of all ranks: one after the other exchanges messages with rank 0, and the one that was back soonest counts. Every rank
/// calls it and gets its own reading; rank 0's has no offset and no error. Throws what RankGroup::receive() throws.
[[nodiscard]] ClockReading read_clocks(RankStreams& streams, int tag, const OwnClock& now = steady_now);

/// The clock between two readings, of which `first` is not the later one.
/// It has the drift of the line through both where a drift of 100 ppm would show over their errors, or where the offsets differ by more
/// than these. Else it has none, and the offset of the reading with the smaller error.
[[nodiscard]] RankClock clock_between(const ClockReading& first, const ClockReading& last);

/// Gives every rank's clock to all of them, by rank. Every rank calls it.
[[nodiscard]] std::vector<RankClock> exchange_clocks(RankStreams& streams, int tag, const RankClock& own);

}  // namespace mptune::tuner
