#include "profiler/trace/formats/kineto_devices.h"

#include <algorithm>
#include <vector>

#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/trace/values/process_overlap.h"

namespace mptune::profiler {
namespace {

constexpr std::int64_t kMostStreams = std::int64_t{1} << 40;

}  // namespace

std::int16_t KinetoDevices::index_of(std::int64_t id, const std::string& where) {
  const auto [place, is_new] = met_.try_emplace(id, static_cast<std::int16_t>(met_.size()));
  if (met_.size() > kMostDevices)
    throw Error("the trace has more than 4096 devices", where, "give a trace of one program, as its profiler wrote it");
  return place->second;
}

void KinetoDevices::number(Trace& trace, const ChromeHeader& header, const std::string& family) const {
  std::vector<std::int16_t> place(met_.size());
  for (const auto& [id, met] : met_) {
    place[as_index(met)] = static_cast<std::int16_t>(trace.devices.size());
    TraceDevice device{.name = family + ":" + std::to_string(id), .description = family == "cuda" ? "CUDA device" : family + " device"};
    for (const ChromeDevice& described : header.devices) {
      if (described.id != id) continue;
      if (!described.name.empty()) device.description = described.name;
      device.memory_bytes = described.memory_bytes;
    }
    trace.devices.push_back(device);
  }
  for (Event& event : trace.events) event.device = place[as_index(event.device)];
  for (Copy& copy : trace.copies) {
    if (copy.source >= 0) copy.source = place[as_index(copy.source)];
    if (copy.destination >= 0) copy.destination = place[as_index(copy.destination)];
  }
}

std::int64_t DeviceProcesses::stream_of(std::int64_t device, const std::string& process, std::int64_t stream) {
  std::map<std::string, std::int64_t>& processes = met_[device];
  const std::int64_t number = processes.try_emplace(process, static_cast<std::int64_t>(processes.size())).first->second;
  return std::clamp<std::int64_t>(stream, 0, kMostStreams - 1) + kMostStreams * number;
}

std::int64_t DeviceProcesses::overlapping(const Trace& trace, const std::vector<std::int64_t>& streams) const {
  if (std::ranges::all_of(met_, [](const auto& device) { return device.second.size() < 2; })) return 0;
  std::map<int, std::vector<ProcessWork>> works;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const Event& event = trace.events[i];
    if (streams[i] >= 0) works[event.device].push_back({streams[i] / kMostStreams, {event.start, event.end()}});
  }
  std::int64_t sum = 0;
  for (const auto& [device, of_device] : works) sum += overlapping_between_processes(of_device);
  return sum;
}

std::int64_t number_of_stream(std::int64_t stream) {
  return stream < 0 ? stream : stream % kMostStreams;
}

}  // namespace mptune::profiler
