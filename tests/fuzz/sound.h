#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "profiler/trace/values/trace.h"

namespace mptune::testing {

/// True if a trace is consistent: indices in range, no negative times, no overlap of events on a lane or of steps, edges without a cycle
/// (readers' edges lead forward).
inline bool is_sound(const Trace& trace) {
  const auto within = [](std::int64_t index, std::size_t size) { return index >= -1 && index < static_cast<std::int64_t>(size); };
  std::map<std::pair<int, int>, Nanoseconds> free;
  for (const Event& event : trace.events) {
    const std::size_t details = event.kind == EventKind::copy ? trace.copies.size() : trace.kernels.size();
    if (event.name < 0 || !within(event.name, trace.names.size()) || !within(event.tag, trace.tags.size())) return false;
    if (event.device < 0 || !within(event.device, trace.devices.size()) || !within(event.detail, details)) return false;
    if (event.start < Nanoseconds{0} || event.duration < Nanoseconds{0}) return false;
    const auto [lane, is_first] = free.try_emplace({event.device, event.lane}, event.end());
    if (!is_first && event.start < lane->second) return false;
    lane->second = event.end();
  }
  for (const Copy& copy : trace.copies)
    if (!within(copy.source, trace.devices.size()) || !within(copy.destination, trace.devices.size()) || copy.bytes < 0) return false;
  for (const Launch& launch : trace.launches) {
    if (!within(launch.event, trace.events.size()) || !within(launch.thread, trace.threads.size())) return false;
    if (!within(launch.name, trace.names.size()) || launch.end < launch.start || launch.correlation <= 0) return false;
  }
  for (const Edge& edge : trace.edges)
    if (edge.producer < 0 || edge.consumer <= edge.producer || !within(edge.consumer, trace.events.size())) return false;
  for (std::size_t i = 1; i < trace.steps.size(); ++i)
    if (trace.steps[i].start < trace.steps[i - 1].end) return false;
  return std::all_of(trace.steps.begin(), trace.steps.end(), [](const StepWindow& step) { return step.start < step.end; });
}

}  // namespace mptune::testing
