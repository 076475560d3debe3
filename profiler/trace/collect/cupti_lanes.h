#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "profiler/trace/collect/cupti_records.h"

namespace mptune::profiler {

/// Assigns a device and a lane of the trace to every stream.
class CuptiLanes {
 public:
  struct Assignment {
    int device = 0;
    int lane = 0;
  };

  /// Sets trace.devices: `devices`, then others in order of first occurrence.
  CuptiLanes(const CuptiRecords& records, const std::vector<TraceDevice>& devices, Trace& trace);

  /// Returns the device and lane of the stream of `work`.
  [[nodiscard]] Assignment assigned(const CuptiWork& work);
  /// Returns the index in trace.devices of CUPTI's `device`.
  [[nodiscard]] int device(std::uint32_t device);
  /// Returns the lane for an event: `wanted`, or if that is -1 or busy, a free lane without a stream; -1 if there is none. Requires: calls
  /// in the order of the events' starts.
  [[nodiscard]] int take(int device, int wanted, Nanoseconds start, Nanoseconds end);

 private:
  using Stream = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;  // device, context, stream

  void assign_busiest_streams();

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
  std::map<Stream, Assignment> assigned_;
  std::vector<Device> state_;  // by index in trace.devices
};

}  // namespace mptune::profiler
