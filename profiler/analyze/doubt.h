#pragma once

#include <string>

#include "mptune/profiler/trace/trace.h"

namespace mptune {

/// What a recording lost may be at most this share of what it holds: times are wrong by about as much.
inline constexpr double kMostLost = 0.01;

/// Why nothing can be concluded from the recording: one clause for people, "" where its losses do not matter. Each of these may be at most
/// kMostLost of the events, losses included: dropped or without times (what they did looks like idling), without counterpart (what it
/// waited for has no name), outside of the steps (nobody asked about it).
[[nodiscard]] std::string doubt(const Trace& trace);

}  // namespace mptune
