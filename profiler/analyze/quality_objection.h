#pragma once

#include <string>

#include "mptune/profiler/trace/trace.h"

namespace mptune {

/// The largest share of a recording that may be lost: times are wrong by about as much.
inline constexpr double kMostLost = 0.01;

/// Why a recording is too incomplete for a verdict: one clause for people, "" where it is not. Each of these may be at most kMostLost of
/// the events, losses included: dropped or without times (their work looks like idle time), without counterpart (the cause of a wait is
/// unknown), outside of the steps.
[[nodiscard]] std::string quality_objection(const Trace& trace);

}  // namespace mptune
