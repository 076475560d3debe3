#include "mptune/profiler/formats/builder.h"

#include <algorithm>
#include <numeric>

namespace mptune {

namespace {

void order_events(Trace& trace) {
  std::vector<int> by_start(trace.events.size());
  std::iota(by_start.begin(), by_start.end(), 0);
  const auto event = [&](int index) -> const Event& { return trace.events[static_cast<std::size_t>(index)]; };
  std::stable_sort(by_start.begin(), by_start.end(), [&](int a, int b) { return event(a).start < event(b).start; });
  std::vector<Event> events;
  events.reserve(by_start.size());
  std::vector<int> place(by_start.size());
  for (const int index : by_start) {
    place[static_cast<std::size_t>(index)] = static_cast<int>(events.size());
    events.push_back(event(index));
  }
  trace.events = std::move(events);
  const auto move = [&](int& index) {
    if (index >= 0) index = place[static_cast<std::size_t>(index)];
  };
  for (Launch& launch : trace.launches) move(launch.event);
  for (Edge& edge : trace.edges) {
    move(edge.producer);
    move(edge.consumer);
  }
}

}  // namespace

void settle_lanes(Trace& trace) {
  std::map<std::pair<int, int>, Nanoseconds> free;
  for (Event& event : trace.events) {
    const auto [place, is_first] = free.try_emplace({event.device, event.lane}, event.end());
    if (is_first) continue;
    const Nanoseconds end = event.end();
    if (event.start < place->second) {
      if (event.duration > Nanoseconds{0} && end <= place->second) ++trace.quality.dropped;
      event.start = place->second;
      event.duration = std::max(end - event.start, Nanoseconds{0});
    }
    place->second = std::max(place->second, event.end());
  }
  order_events(trace);
}

void settle_steps(Trace& trace) {
  std::stable_sort(trace.steps.begin(), trace.steps.end(), [](const StepWindow& a, const StepWindow& b) { return a.start < b.start; });
  std::vector<StepWindow> settled;
  for (StepWindow step : trace.steps) {
    if (!settled.empty()) step.start = std::max(step.start, settled.back().end);
    if (step.start < step.end) settled.push_back(step);
  }
  trace.steps = std::move(settled);
}

}  // namespace mptune
