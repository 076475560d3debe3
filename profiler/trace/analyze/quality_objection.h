#pragma once

#include <optional>

#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// A recording may have lost at most this share of what it holds: times are wrong by about as much.
inline constexpr double kMostLost = 0.01;

/// The reason why nothing can be concluded from a recording. reports/values/quality_text.h puts it into words.
struct QualityObjection {
  enum class Loss {
    dropped,         ///< events that were dropped or have no times: what they did looks like idling
    zero_stamped,    ///< the same loss where most of the events have no times
    unmatched,       ///< events without counterpart: what they waited for has no name
    unmatched_time,  ///< devices' time in communications without counterpart: how much of it is waiting is not known
    ambiguous,       ///< work overlaps another process's under the same device number: one device or several
    out_of_window,   ///< outside of the steps: no step holds their time
    implausible,     ///< a record's times can't be right, so others may be wrong, too: `record` is the first
  };
  Loss loss = Loss::dropped;
  double share = 0;  ///< share of all events, losses included; unmatched_time: of the devices' time in the steps; unmatched: of all but
                     ///< copies of unified memory; implausible: 0
  std::optional<ImplausibleTime> record{};
  bool operator==(const QualityObjection&) const = default;
};

/// Returns a record with implausible times, else the first loss that is more than kMostLost of the events; nullopt if losses do not matter.
[[nodiscard]] std::optional<QualityObjection> quality_objection(const Trace& trace);

}  // namespace mptune::profiler
