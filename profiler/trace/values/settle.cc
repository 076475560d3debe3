#include "profiler/trace/values/settle.h"

#include <algorithm>
#include <map>
#include <utility>

#include "profiler/trace/values/trace_builder.h"

namespace mptune::profiler {

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
  // An event that lost its beginning may now start after one that waited for it.
  trace.quality.unmatched +=
      static_cast<std::int64_t>(std::erase_if(trace.edges, [](const Edge& edge) { return edge.producer >= edge.consumer; }));
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

int step_at(const std::vector<StepWindow>& steps, Nanoseconds time) {
  const auto after = std::partition_point(steps.begin(), steps.end(), [&](const StepWindow& step) { return step.start <= time; });
  return after == steps.begin() || time >= std::prev(after)->end ? -1 : std::prev(after)->step;
}

}  // namespace mptune::profiler
