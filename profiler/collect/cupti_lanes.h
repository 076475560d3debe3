#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "mptune/profiler/collect/cupti_records.h"

namespace mptune {

/// Gives every stream of the records its device and lane in the trace.
class CuptiLanes {
 public:
  struct Seat {
    int device = 0;
    int lane = 0;
  };

  /// Sets trace.devices: `devices`, then those of other names as they are met.
  CuptiLanes(const CuptiRecords& records, const std::vector<TraceDevice>& devices, Trace& trace);

  /// Where the stream of `work` belongs.
  [[nodiscard]] Seat seat(const CuptiWork& work);
  /// Index of the trace's device that CUPTI's `device` is.
  [[nodiscard]] int device(std::uint32_t device);
  /// Lane for an event that would like `wanted` (-1: none): that one, or where it is still busy a lane that no stream has; -1 where all
  /// are. Events must come in order of their starts.
  [[nodiscard]] int take(int device, int wanted, Nanoseconds start, Nanoseconds end);

 private:
  using Stream = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;  // device, context, stream

  void seat_busiest_streams();

  static constexpr int kLanes = 256;
  struct Device {
    int next_stream = kStreamLane;
    bool has_compute = false;
    std::array<Nanoseconds, kLanes> busy_until;
    Device() { busy_until.fill(Nanoseconds::min()); }
  };

  const CuptiRecords& records_;
  Trace& trace_;
  std::map<std::string, int> devices_by_name_;
  std::map<Stream, Seat> seats_;
  std::vector<Device> state_;  // as trace.devices
};

}  // namespace mptune
