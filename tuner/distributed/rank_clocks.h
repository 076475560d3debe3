#pragma once

#include <vector>

#include "profiler/trace/trace.h"
#include "tuner/distributed/rank_streams.h"

namespace mptune::tuner {

/// What a rank knows of rank 0's clock at one moment. Times are since the epoch of std::chrono::steady_clock.
struct ClockReading {
  Nanoseconds own{0};    ///< the moment on the own clock
  Nanoseconds first{0};  ///< the same on rank 0's
  Nanoseconds error{0};  ///< `first` is off by at most this: half the time that a message there and back took
};

/// Makes times of rank 0's clock of times of a rank's own:  first = own + offset + drift * (own - reference).
struct RankClock {
  Nanoseconds offset{0};
  double drift = 0;
  Nanoseconds reference{0};
  Nanoseconds error{0};  ///< largest error of the readings that it comes from
  [[nodiscard]] Nanoseconds common(Nanoseconds own) const;
};

/// The line through two readings, `last` later than `first`. Without drift where they say no more of it than that it may be 0: the readings
/// differ by less than their errors.
[[nodiscard]] RankClock clock_between(const ClockReading& first, const ClockReading& last);

/// Every rank calls it, and gets its own reading: of many messages to rank 0 and back, the fastest. One rank after the other.
[[nodiscard]] ClockReading read_clock(RankStreams& streams, int tag);

/// The clocks of all ranks, by rank, of their readings before and after a recording. Every rank calls it and gets all.
[[nodiscard]] std::vector<RankClock> exchange_clocks(RankStreams& streams, int tag, const ClockReading& before, const ClockReading& after);

}  // namespace mptune::tuner
