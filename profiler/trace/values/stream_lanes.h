#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// Assigns lanes to the streams of a recording. On each device the stream that computes longest gets kComputeLane; if none computes, no
/// stream gets it. The other streams get lanes in the order in which they first occur.
///
/// Events of one lane never overlap. An event that starts during earlier work of its stream gets another lane, which the stream keeps:
///
///     stream 7   lane 0  [ kernel   ]      [ kernel ]
///                lane 2       [ launched to it ]
///
/// A device has at most 256 lanes. When all are assigned, an event gets any lane that is free at its start.
template <typename Stream>
class StreamLanes {
 public:
  using OfDevice = std::pair<int, Stream>;

  /// `compute`: how long each stream computes, in any unit; streams that never compute are left out.
  explicit StreamLanes(const std::map<OfDevice, double>& compute) {
    std::map<int, std::pair<double, Stream>> longest;
    for (const auto& [stream, time] : compute) {
      const auto [place, is_first] = longest.try_emplace(stream.first, time, stream.second);
      if (!is_first && time > place->second.first) place->second = {time, stream.second};
    }
    for (const auto& [device, stream] : longest) lanes_[{device, stream.second}] = {kComputeLane};
  }

  /// Returns the lane of an event that lasts over [start, end); nullopt if all lanes of the device are taken. Requires: calls in the order
  /// of start.
  [[nodiscard]] std::optional<std::uint8_t> take(const OfDevice& stream, Nanoseconds start, Nanoseconds end) {
    std::vector<std::uint8_t>& lanes = lanes_[stream];
    std::vector<Nanoseconds>& until = until_.try_emplace(stream.first, std::size_t{1}, Nanoseconds::min()).first->second;
    const auto is_free = [&](std::uint8_t lane) { return until[lane] <= start; };
    auto lane = std::find_if(lanes.begin(), lanes.end(), is_free);
    if (lane == lanes.end()) {
      auto free = until.size() < kLanes ? until.insert(until.end(), Nanoseconds::min()) : until.begin() + 1;
      free = std::find_if(free, until.end(), [&](Nanoseconds time) { return time <= start; });
      if (free == until.end()) return std::nullopt;
      lane = lanes.insert(lanes.end(), static_cast<std::uint8_t>(free - until.begin()));
    }
    until[*lane] = std::max(until[*lane], end);
    return *lane;
  }

 private:
  static constexpr std::size_t kLanes = 256;

  std::map<OfDevice, std::vector<std::uint8_t>> lanes_;
  std::map<int, std::vector<Nanoseconds>> until_;  // by device and lane: end of its last event
};

}  // namespace mptune::profiler
