#include "profiler/trace/ranks/unmatched_time.h"

#include <set>
#include <utility>

#include "profiler/base/index.h"
#include "profiler/trace/ranks/joined_edges.h"
#include "profiler/trace/values/intervals.h"

namespace mptune::profiler {
namespace {

// Returns the events of the joined trace with a communication that met nothing.
std::set<int> events_without_meeting(const JoinedTrace& joined, const std::vector<RankRecording>& recordings, const Meetings& meetings) {
  std::set<std::pair<int, int>> met;
  for (const Meeting& meeting : meetings.all)
    for (const Member& member : meeting.members) met.insert({member.recording, member.communication});
  std::set<int> events;
  for (int r = 0; r < static_cast<int>(recordings.size()); ++r) {
    const std::vector<Communication>& all = recordings[as_index(r)].communications;
    for (int c = 0; c < static_cast<int>(all.size()); ++c)
      if (!met.contains({r, c})) events.insert(joined.event(r, all[as_index(c)].event));
  }
  return events;
}

std::vector<TimeInterval> windows_of_steps(const Trace& trace) {
  if (trace.steps.empty()) return {{Nanoseconds::min(), Nanoseconds::max()}};
  std::vector<TimeInterval> windows;
  for (const StepWindow& step : trace.steps) windows.push_back({step.start, step.end});
  return merge(std::move(windows));
}

}  // namespace

Nanoseconds unmatched_time(const JoinedTrace& joined, const std::vector<RankRecording>& recordings, const Meetings& meetings) {
  const Trace& trace = joined.trace;
  const std::set<int> unmatched = events_without_meeting(joined, recordings, meetings);
  std::vector<std::vector<TimeInterval>> computing(trace.devices.size()), both(trace.devices.size());
  for (int i = 0; i < static_cast<int>(trace.events.size()); ++i) {
    const Event& event = trace.events[as_index(i)];
    const bool counts = event.kind == EventKind::collective && unmatched.contains(i);
    if (computes(event)) computing[as_index(event.device)].push_back({event.start, event.end()});
    if (computes(event) || counts) both[as_index(event.device)].push_back({event.start, event.end()});
  }
  const std::vector<TimeInterval> windows = windows_of_steps(trace);
  Nanoseconds sum{0};
  for (std::size_t d = 0; d < both.size(); ++d)
    sum += total(intersect(merge(std::move(both[d])), windows)) - total(intersect(merge(std::move(computing[d])), windows));
  return sum;
}

}  // namespace mptune::profiler
