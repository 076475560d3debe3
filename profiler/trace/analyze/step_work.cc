#include "profiler/trace/analyze/step_work.h"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "profiler/base/index.h"
#include "profiler/trace/analyze/replay.h"

namespace mptune::profiler {
namespace {

constexpr int kNone = -1;

// Events where a piece of work starts or ends because an edge from or to another lane does: flags per event.
struct Ends {
  std::vector<bool> sends;
  std::vector<bool> receives;
};

// Edges within a lane are left out: its events are ordered by start.
bool between_lanes(const Trace& trace, const Edge& edge) {
  const Event& producer = trace.events[as_index(edge.producer)];
  const Event& consumer = trace.events[as_index(edge.consumer)];
  return edge.kind != EdgeKind::order || producer.device != consumer.device || producer.lane != consumer.lane;
}

Ends ends_of(const Trace& trace) {
  Ends ends{std::vector<bool>(trace.events.size()), std::vector<bool>(trace.events.size())};
  for (const Edge& edge : trace.edges) {
    const std::size_t producer = checked_event(edge.producer, trace.events.size());
    const std::size_t consumer = checked_event(edge.consumer, trace.events.size());
    if (!between_lanes(trace, edge)) continue;
    ends.sends[producer] = true;
    ends.receives[consumer] = true;
  }
  return ends;
}

// Puts one step's events, in order of start, into pieces of work.
class Gatherer {
 public:
  Gatherer(const Trace& trace, const Ends& ends) : trace_(trace), ends_(ends), work_of_(trace.events.size(), kNone) {}

  void begin(const StepWindow& window) {
    step_ = StepWork{window, {}, {}};
    lanes_.clear();
  }

  void add(std::size_t index) {
    const Event& event = trace_.events[index];
    Lane& lane = lanes_[{event.device, event.lane}];
    if (event.kind != EventKind::copy && !is_compute(event.kind)) {
      // A wait or a hand-over is not work: the next work inherits its producers, and its consumers wait for the work before it.
      lane.before_next.push_back(index);
      lane.last_sends = lane.last_sends || ends_.receives[index] || ends_.sends[index];
      before_.emplace_back(index, lane.work);
      return;
    }
    if (!continues(lane, index)) open(lane, index);
    Work& work = step_.works[as_index(lane.work)];
    work.end = std::max(work.end, event.end());
    work.busy += event.duration;
    work_of_[index] = lane.work;
    for (const std::size_t waiting : lane.before_next) work_of_[waiting] = lane.work;
    lane.before_next.clear();
    lane.last_sends = ends_.sends[index];
  }

  StepWork take() { return std::move(step_); }

  // Returns the index into the works of the event's step, -1: none.
  [[nodiscard]] int work_that_waits(std::size_t index) const { return work_of_[index]; }
  [[nodiscard]] int work_waited_for(std::size_t index) const {
    const auto found = std::lower_bound(before_.begin(), before_.end(), std::pair(index, kNone));
    return found != before_.end() && found->first == index ? found->second : work_of_[index];
  }

 private:
  struct Lane {
    int work = kNone;
    bool last_sends = false;
    std::vector<std::size_t> before_next;
  };

  [[nodiscard]] Tag tag_of(const Event& event) const {
    Tag tag = event.tag < 0 ? Tag{} : trace_.tags.at(as_index(event.tag));
    tag.layer = -1;
    return tag;
  }

  [[nodiscard]] bool continues(const Lane& lane, std::size_t index) const {
    const Event& event = trace_.events[index];
    if (lane.work < 0 || lane.last_sends || ends_.receives[index] || event.kind == EventKind::copy) return false;
    const Work& work = step_.works[as_index(lane.work)];
    return work.kind == event.kind && work.tag == tag_of(event);
  }

  void open(Lane& lane, std::size_t index) {
    const Event& event = trace_.events[index];
    const int next = static_cast<int>(step_.works.size());
    if (lane.work >= 0) step_.edges.push_back({lane.work, next, EdgeKind::order});
    lane.work = next;
    Work work{.kind = event.kind, .name = event.name, .device = event.device, .lane = event.lane, .tag = tag_of(event)};
    if (event.kind == EventKind::copy) work.copy = event.detail;
    work.start = event.start;
    work.end = event.start;
    step_.works.push_back(work);
  }

  const Trace& trace_;
  const Ends& ends_;
  std::vector<int> work_of_;
  std::vector<std::pair<std::size_t, int>> before_;  // (event that is not work, the work before it), ordered
  std::map<std::pair<int, int>, Lane> lanes_;
  StepWork step_;
};

// True for what a device itself does. Waits and the recorder's work are timed on the host: they may lie far from the device's work.
bool is_work_of_device(const Event& event) {
  return is_device_work(event.kind);
}

// The interval from the first start to the last end of what was added.
class Hull {
 public:
  void take(const Event& event) {
    start_ = std::min(start_, event.start);
    end_ = std::max(end_, event.end());
  }
  [[nodiscard]] bool is_empty() const { return start_ >= end_; }
  [[nodiscard]] StepWindow window() const { return {.step = 0, .start = start_, .end = end_}; }

 private:
  Nanoseconds start_ = Nanoseconds::max();
  Nanoseconds end_ = Nanoseconds::min();
};

// Returns the index of the window that contains a time, kNone if none does. Windows are ordered and disjoint.
int window_at(const std::vector<StepWindow>& windows, Nanoseconds time) {
  const auto after = std::partition_point(windows.begin(), windows.end(), [&](const StepWindow& w) { return w.start <= time; });
  if (after == windows.begin() || time >= std::prev(after)->end) return kNone;
  return static_cast<int>(after - windows.begin()) - 1;
}

}  // namespace

std::vector<StepWindow> windows_of(const Trace& trace) {
  if (!trace.steps.empty() || trace.events.empty()) return trace.steps;
  Hull work;
  Hull all;
  for (const Event& event : trace.events) {
    all.take(event);
    if (is_work_of_device(event)) work.take(event);
  }
  for (const Event& range : trace.ranges)
    if (range.kind == EventKind::step) work.take(range);
  return {(work.is_empty() ? all : work).window()};
}

std::vector<StepWork> step_works(const Trace& trace) {
  const std::vector<StepWindow> windows = windows_of(trace);
  const Ends ends = ends_of(trace);
  std::vector<int> step_of(trace.events.size(), kNone);
  std::vector<StepWork> steps;
  Gatherer gatherer(trace, ends);
  std::size_t next = 0;
  for (std::size_t w = 0; w < windows.size(); ++w) {
    gatherer.begin(windows[w]);
    for (; next < trace.events.size() && trace.events[next].start < windows[w].end; ++next) {
      if (window_at(windows, trace.events[next].start) != static_cast<int>(w)) continue;
      step_of[next] = static_cast<int>(w);
      gatherer.add(next);
    }
    steps.push_back(gatherer.take());
  }
  for (const Edge& edge : trace.edges) {
    if (!between_lanes(trace, edge)) continue;
    const auto producer = as_index(edge.producer);
    const auto consumer = as_index(edge.consumer);
    if (step_of[producer] == kNone || step_of[producer] != step_of[consumer]) continue;
    const int from = gatherer.work_waited_for(producer);
    const int to = gatherer.work_that_waits(consumer);
    if (from >= 0 && to >= 0 && from != to) steps[as_index(step_of[consumer])].edges.push_back({from, to, edge.kind});
  }
  return steps;
}

}  // namespace mptune::profiler
