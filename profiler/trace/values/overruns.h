#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "profiler/trace/values/plausible_times.h"
#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// Neighbours on a stream may overlap by up to this because of the resolution of their stamps; recordings of GPUs show tens of nanoseconds.
inline constexpr Nanoseconds kStampTolerance{1'000};

/// A record that was still running when the next one of its stream had begun.
struct Overrun {
  std::size_t record = 0;  ///< indices of records
  std::size_t next = 0;
  bool encloses = false;  ///< it was still running when the next one had ended
  bool operator==(const Overrun&) const = default;
};

/// Returns the records that end more than kStampTolerance after the next one of their stream starts, though a stream runs one after
/// another, ordered by index. Records without a stream or without length, and records of the same call (nodes of a CUDA graph), overrun
/// nothing. O(n log n).
///
///     stream 7   [ record                  ]
///                          [ next ]
[[nodiscard]] std::vector<Overrun> overruns(const std::vector<TimedRecord>& records);

/// True if the two records can't both be right. `call` launched the next one; "": not known. A kernel that was launched with attributes
/// (programmatic dependent launch) may begin early, but ends last; so may a kernel whose launch is not known. Nodes of graphs have streams
/// of their own.
[[nodiscard]] bool is_wrong(const Overrun& overrun, std::string_view call);

}  // namespace mptune::profiler
