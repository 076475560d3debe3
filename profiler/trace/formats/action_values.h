#pragma once

#include <cstdint>
#include <string>

#include "profiler/trace/formats/action_times.h"

namespace mptune::profiler {

inline constexpr int kLastRank = 4095;
inline constexpr int kLastChunk = 63;
inline constexpr int kLastMicrobatch = (1 << 20) - 1;
inline constexpr std::int64_t kMostActions = std::int64_t{1} << 22;

/// Sets start and end from milliseconds. Returns what is wrong with them, "" if nothing.
[[nodiscard]] std::string put_times(TimedAction& action, double start_ms, double end_ms);

/// Returns all the rest of a text. Throws Error beyond 1 GiB.
[[nodiscard]] std::string whole_text(TextInput& input);

/// True if a text begins like a file of action times. Reads its first 64 KiB at most.
[[nodiscard]] bool begins_like_actions(TextInput& input);

/// Returns a file's name without folder and endings: "pp_rank_3" of "dump/pp_rank_3.json.gz".
[[nodiscard]] std::string rank_stem(const std::string& path);

}  // namespace mptune::profiler
