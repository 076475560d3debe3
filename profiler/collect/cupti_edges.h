#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "mptune/profiler/collect/cupti_records.h"

namespace mptune {

/// One event of a trace as it was handed to its stream. Correlations grow in the order of the calls.
struct CuptiSubmission {
  std::uint32_t correlation = 0;
  int event = -1;
  std::pair<std::uint32_t, std::uint32_t> stream;  ///< context, stream
};

/// Appends to trace.edges: order along each stream, and for each recorded wait the last work before the event was recorded -> the first
/// work after the wait, also through streams that only pass an event on.
void add_stream_edges(const CuptiRecords& records, std::vector<CuptiSubmission> submissions, Trace& trace);

}  // namespace mptune
