#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "profiler/trace/collect/cupti_records.h"

namespace mptune::profiler {

/// The submission of an event to its stream. Correlations ascend in the order of the calls.
struct CuptiSubmission {
  std::uint32_t correlation = 0;
  int event = -1;
  std::pair<std::uint32_t, std::uint32_t> stream;  ///< context, stream
};

/// Appends edges to the trace: the order of each stream, and one edge per recorded wait, from the last work before the event's record to
/// the first work after the wait. Waits are followed through streams that only wait and record.
void add_stream_edges(const CuptiRecords& records, std::vector<CuptiSubmission> submissions, Trace& trace);

}  // namespace mptune::profiler
