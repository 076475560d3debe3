#include "profiler/trace/analyze/busy.h"

#include <algorithm>

#include "profiler/base/index.h"
#include "profiler/trace/values/kernel_names.h"

namespace mptune::profiler {
namespace {

// Events come in order of start, so most intervals join the last one here and merge() has little to do.
void append(std::vector<TimeInterval>& intervals, const Event& event) {
  if (event.duration.count() <= 0) return;
  if (!intervals.empty() && intervals.back().start <= event.start && event.start <= intervals.back().end)
    intervals.back().end = std::max(intervals.back().end, event.end());
  else
    intervals.push_back({event.start, event.end()});
}

void add_copy(std::vector<Busy>& busy, int device, const Event& event) {
  if (device >= 0 && as_index(device) < busy.size()) append(busy[as_index(device)].copy, event);
}

void add(std::vector<Busy>& busy, const Trace& trace, const Event& event, int lone) {
  if (event.device == lone && is_collective_of_nccl(trace, event)) return add_copy(busy, event.device, event);
  if (event.kind != EventKind::copy) {
    if (is_compute(event.kind)) append(busy.at(as_index(event.device)).compute, event);
    return;
  }
  const Copy copy = event.detail < 0 ? Copy{} : trace.copies.at(as_index(event.detail));
  add_copy(busy, event.device, event);
  if (copy.source != event.device) add_copy(busy, copy.source, event);
  if (copy.destination != event.device) add_copy(busy, copy.destination, event);
}

}  // namespace

bool is_collective_of_nccl(const Trace& trace, const Event& event) {
  return event.kind == EventKind::collective && is_nccl_kernel(trace.names.at(as_index(event.name)));
}

int lone_communicator(const Trace& trace) {
  int lone = -1;
  for (const Event& event : trace.events) {
    if (event.kind != EventKind::collective || event.device == lone || !is_collective_of_nccl(trace, event)) continue;
    if (lone >= 0) return -1;
    lone = event.device;
  }
  return lone;
}

std::vector<Busy> busy_times(const Trace& trace) {
  std::vector<Busy> busy(trace.devices.size());
  const int lone = lone_communicator(trace);
  for (const Event& event : trace.events) add(busy, trace, event, lone);
  for (Busy& device : busy) {
    device.compute = merge(std::move(device.compute));
    device.copy = merge(std::move(device.copy));
    device.overlap = intersect(device.compute, device.copy);
  }
  return busy;
}

std::vector<TimeInterval> idle_within(const Busy& busy, TimeInterval window) {
  std::vector<TimeInterval> idle;
  Nanoseconds free_since = window.start;
  const auto first = [&](const std::vector<TimeInterval>& intervals) {
    return std::partition_point(intervals.begin(), intervals.end(), [&](const TimeInterval& t) { return t.end <= window.start; });
  };
  auto compute = first(busy.compute);
  auto copy = first(busy.copy);
  while (free_since < window.end) {
    const bool more_compute = compute != busy.compute.end();
    const bool more_copies = copy != busy.copy.end();
    if (!more_compute && !more_copies) break;
    const bool take_compute = more_compute && (!more_copies || compute->start <= copy->start);
    const TimeInterval next = take_compute ? *compute++ : *copy++;
    if (next.start >= window.end) break;
    if (next.start > free_since) idle.push_back({free_since, next.start});
    free_since = std::max(free_since, next.end);
  }
  if (free_since < window.end) idle.push_back({free_since, window.end});
  return idle;
}

}  // namespace mptune::profiler
