#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "profiler/trace/formats/chrome_events.h"
#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// The GPUs of a Kineto trace. While it is read they are numbered in order of first occurrence, then by their ids.
class KinetoDevices {
 public:
  /// Returns the index of a GPU. Throws Error with the place `where` if there are more than kMostDevices.
  std::int16_t index_of(std::int64_t id, const std::string& where);
  /// Adds the GPUs to the trace by ascending ids, as "FAMILY:ID" and as the header describes them; its events and copies follow.
  void number(Trace& trace, const ChromeHeader& header, const std::string& family) const;

 private:
  std::map<std::int64_t, std::int16_t> met_;  // index by id
};

/// Streams of a device by the process that the rows name. A file of one process names the device itself there. If it names several
/// processes, they were merged: each has devices of its own, or they share one.
class DeviceProcesses {
 public:
  /// Returns a number for the stream, different for each process of a device. number_of_stream() turns it back.
  std::int64_t stream_of(std::int64_t device, const std::string& process, std::int64_t stream);
  /// Returns how much work overlaps work of another process on its device. `streams`: by event.
  [[nodiscard]] std::int64_t overlapping(const Trace& trace, const std::vector<std::int64_t>& streams) const;

 private:
  std::map<std::int64_t, std::map<std::string, std::int64_t>> met_;  // by device: processes, numbered
};

/// Returns the stream's own number.
[[nodiscard]] std::int64_t number_of_stream(std::int64_t stream);

}  // namespace mptune::profiler
