#pragma once

#include <optional>

#include "profiler/trace/trace.h"

namespace mptune::profiler {

/// What a recording lost may be at most this share of what it holds: times are wrong by about as much.
inline constexpr double kMostLost = 0.01;

/// Why nothing can be concluded from a recording. reports/quality_text.h words it.
struct QualityObjection {
  enum class Loss {
    dropped,         ///< or without times: what they did looks like idling
    zero_stamped,    ///< likewise, where most of them have no times
    unmatched,       ///< without counterpart: what they waited for has no name
    unmatched_time,  ///< devices' time in communications without counterpart: how much of it is waiting is not known
    ambiguous,       ///< overlaps work of another process under the same device number: one device or several
    out_of_window,   ///< outside of the steps: no step holds their time
    implausible,     ///< a record's times can't be right, so others may be wrong, too: `record` is the first
  };
  Loss loss = Loss::dropped;
  double share = 0;  ///< of all events, losses included; of unmatched_time, of the devices' time in the steps; 0 for implausible; of
                     ///< unmatched events, of all but copies of unified memory
  std::optional<ImplausibleTime> record{};
  bool operator==(const QualityObjection&) const = default;
};

/// A record with implausible times, else the first loss that is more than kMostLost of the events; nothing where losses do not matter.
[[nodiscard]] std::optional<QualityObjection> quality_objection(const Trace& trace);

}  // namespace mptune::profiler
