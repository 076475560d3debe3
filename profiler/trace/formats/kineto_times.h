#pragma once

#include <cstdint>
#include <vector>

#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// Overlaps up to this long are rounding errors: files of 2021 have whole microseconds.
inline constexpr Nanoseconds kKinetoRounding{1'000};

/// References to what the Kineto reader has read: a trace without launches, and what belongs to it. Owns nothing.
struct KinetoRecords {
  Trace& trace;
  std::vector<Launch>& calls;
  std::vector<std::int64_t>& correlations;  ///< by event; <= 0: unknown
  std::vector<std::int64_t>& streams;       ///< by event
  std::vector<std::int64_t>& contexts;      ///< by event; 0: unknown
  std::vector<int>& range_threads;          ///< by range: index into Trace::threads
};

/// Leaves out records with implausible times (plausible_times.h), also calls and steps far from the work, and notes them in the trace.
/// Ranges far from the work are left out and only counted. Requires: times as in the file.
void leave_out_implausible(const KinetoRecords& records);

/// Leaves out and counts the work at time 0 whose call came later: the profiler could not get its times. Requires: times as in the file.
void leave_out_zero_stamped(const KinetoRecords& records);

/// Notes records that overrun the next one of their stream and can't be right (overruns.h), and cuts them there. Requires: as above.
void cut_overruns(const KinetoRecords& records);

}  // namespace mptune::profiler
