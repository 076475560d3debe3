#include "profiler/trace/ranks/device_meetings.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "profiler/base/index.h"
#include "profiler/trace/ranks/communicators.h"
#include "profiler/trace/ranks/joined_edges.h"
#include "profiler/trace/ranks/meetings.h"
#include "profiler/trace/ranks/rank_tags.h"
#include "profiler/trace/ranks/unmatched_time.h"
#include "profiler/trace/values/settle.h"

namespace mptune::profiler {
namespace {

/// The collectives of one device as a recording, and where they are in the trace.
struct DeviceCollectives {
  RankRecording recording;
  std::vector<int> events;
};

std::vector<DeviceCollectives> collectives_by_device(const Trace& trace) {
  std::map<int, DeviceCollectives> devices;
  for (int i = 0; i < static_cast<int>(trace.events.size()); ++i) {
    Event event = trace.events[as_index(i)];
    if (event.kind != EventKind::collective) continue;
    DeviceCollectives& device = devices[event.device];
    Trace& to = device.recording.trace;
    device.recording.rank = event.device;
    to.names.push_back(trace.names[as_index(event.name)]);
    event.name = static_cast<std::int32_t>(to.names.size()) - 1;
    if (event.detail >= 0) {
      to.kernels.push_back(trace.kernels[as_index(event.detail)]);
      event.detail = static_cast<std::int32_t>(to.kernels.size()) - 1;
    }
    to.events.push_back(event);
    device.events.push_back(i);
  }
  std::vector<DeviceCollectives> all;
  for (auto& [index, device] : devices) {
    device.recording.trace.steps = trace.steps;
    device.recording.origin = Nanoseconds{0};
    all.push_back(std::move(device));
  }
  return all;
}

}  // namespace

void join_devices(Trace& trace) {
  if (!trace.tags.empty()) return;
  std::vector<DeviceCollectives> devices = collectives_by_device(trace);
  if (devices.size() < 2) return;
  std::vector<RankRecording> recordings;
  for (DeviceCollectives& device : devices) recordings.push_back(std::move(device.recording));
  add_undescribed(recordings);
  find_communicators(recordings);
  const Meetings meetings = find_meetings(recordings);
  for (std::size_t r = 0; r < recordings.size(); ++r)
    for (Communication& one : recordings[r].communications) one.event = devices[r].events[as_index(one.event)];
  JoinedTrace joined{.trace = std::move(trace), .first_event = std::vector<int>(recordings.size(), 0), .rank_of = {}};
  const Nanoseconds unmatched = unmatched_time(joined, recordings, meetings);
  if (!meetings.all.empty()) {
    join_meetings(joined, recordings, meetings);
    settle_lanes(joined.trace);
    tag_ranks(joined.trace);
    joined.trace.quality.untagged = std::ranges::count(joined.trace.events, -1, &Event::tag);
  }
  joined.trace.quality.unmatched_ns += unmatched.count();
  trace = std::move(joined.trace);
}

}  // namespace mptune::profiler
