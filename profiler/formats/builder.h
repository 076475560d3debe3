#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>

#include "mptune/profiler/trace/trace.h"

namespace mptune {

/// Gives names and tags of a trace under construction their indices, each once.
class TraceBuilder {
 public:
  explicit TraceBuilder(Trace& trace) : trace_(trace) {}

  [[nodiscard]] int name(const std::string& text) {
    const auto [place, is_new] = names_.try_emplace(text, static_cast<int>(trace_.names.size()));
    if (is_new) trace_.names.push_back(text);
    return place->second;
  }

  [[nodiscard]] int tag(const Tag& tag) {
    const auto [place, is_new] =
        tags_.try_emplace({tag.step, tag.stage, tag.microbatch, tag.layer, tag.replica}, static_cast<int>(trace_.tags.size()));
    if (is_new) trace_.tags.push_back(tag);
    return place->second;
  }

 private:
  Trace& trace_;
  std::unordered_map<std::string, int> names_;
  std::map<std::tuple<int, int, int, int, int>, int> tags_;
};

/// Makes the events of every lane follow one another, as Trace promises: one that starts inside its predecessor, by rounding or because the
/// file is odd, loses its beginning. Those that lose everything are counted in `quality.dropped`. Requires: events ordered by start; they
/// are again, launches and edges follow them.
void settle_lanes(Trace& trace);

/// Orders the steps by time; one that starts inside its predecessor loses its beginning, and goes where it loses everything.
void settle_steps(Trace& trace);

/// Bytes of all copies that a reader accepts, more than any machine moves: they may be added up.
inline constexpr std::int64_t kMostCopiedBytes = std::int64_t{1} << 60;

/// Longest recording a reader accepts, 2^55 ns, about 14 months: sums of times over devices and steps stay far from overflow.
inline constexpr Nanoseconds kLongestRecording{std::int64_t{1} << 55};

}  // namespace mptune
