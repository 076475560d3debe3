#include "profiler/trace/ranks/common_window.h"

#include <algorithm>

#include "profiler/base/index.h"

namespace mptune::profiler {

std::optional<CommonWindow> common_window(const std::vector<RankRecording>& recordings, const std::vector<AlignedClock>& clocks,
                                          const Meetings& meetings) {
  CommonWindow window{.start = Nanoseconds::min(), .end = Nanoseconds::max(), .outside = {}};
  for (std::size_t r = 0; r < recordings.size(); ++r) {
    const Trace& trace = recordings[r].trace;
    if (!trace.steps.empty() || trace.events.empty() || clocks[r].source == ClockSource::none) return std::nullopt;
    Nanoseconds first = Nanoseconds::max(), last = Nanoseconds::min();
    for (const Event& event : trace.events) {
      first = std::min(first, event.start);
      last = std::max(last, event.end());
    }
    window.start = std::max(window.start, clocks[r].clock.common(first));
    window.end = std::min(window.end, clocks[r].clock.common(last));
  }
  if (window.start >= window.end) return std::nullopt;
  std::int64_t all = 0;
  for (std::size_t r = 0; r < recordings.size(); ++r) {
    const auto lies_beyond = [&](int communication) {
      const Event& event = recordings[r].trace.events[as_index(recordings[r].communications[as_index(communication)].event)];
      return clocks[r].clock.common(event.end()) <= window.start || clocks[r].clock.common(event.start) >= window.end;
    };
    window.outside.push_back(std::ranges::count_if(meetings.without_counterpart[r], lies_beyond));
    all += window.outside.back();
  }
  return all > 0 ? std::optional(window) : std::nullopt;
}

}  // namespace mptune::profiler
