#include "profiler/trace/analyze/idle.h"

#include <algorithm>
#include <map>
#include <utility>

#include "profiler/base/index.h"

namespace mptune::profiler {
namespace {

constexpr Nanoseconds kLongAgo = Nanoseconds::min();

// When an event's input was produced, and when it arrived.
struct Input {
  Nanoseconds produced = kLongAgo;  // end of the producing work
  Nanoseconds arrived = kLongAgo;   // arrival: later than produced if a copy carried it

  void take_later(const Input& other) {
    if (other.arrived > arrived) *this = other;
  }
};

// Edges between lanes, by consumer.
class Producers {
 public:
  explicit Producers(const Trace& trace) : trace_(trace) {
    for (const Edge& edge : trace.edges)
      if (edge.kind != EdgeKind::order) pairs_.emplace_back(edge.consumer, edge.producer);
    std::sort(pairs_.begin(), pairs_.end());
  }

  [[nodiscard]] Input input_of(int event) const {
    Input latest;
    for (auto pair = first(event); pair != pairs_.end() && pair->first == event; ++pair) {
      const Event& producer = trace_.events.at(as_index(pair->second));
      Input input{producer.end(), producer.end()};
      if (producer.kind == EventKind::copy) input.produced = std::min(input.arrived, production_end(pair->second));
      latest.take_later(input);
    }
    return latest;
  }

 private:
  using Pairs = std::vector<std::pair<int, int>>;

  [[nodiscard]] Pairs::const_iterator first(int event) const {
    return std::lower_bound(pairs_.begin(), pairs_.end(), std::pair(event, -1));
  }

  // Returns when the data of a copy was produced: at the end of its producers; without producers, at the start of the copy.
  [[nodiscard]] Nanoseconds production_end(int copy) const {
    Nanoseconds produced = kLongAgo;
    for (auto pair = first(copy); pair != pairs_.end() && pair->first == copy; ++pair)
      produced = std::max(produced, trace_.events.at(as_index(pair->second)).end());
    return produced == kLongAgo ? trace_.events[as_index(copy)].start : produced;
  }

  const Trace& trace_;
  Pairs pairs_;
};

// Removes from `left` what `part` covers, and returns what it removed. Requires: `part` is merged.
std::vector<TimeInterval> take(std::vector<TimeInterval>& left, const std::vector<TimeInterval>& part) {
  std::vector<TimeInterval> rest;
  std::vector<TimeInterval> taken;
  auto next = part.begin();
  for (TimeInterval interval : left) {
    next = std::partition_point(next, part.end(), [&](const TimeInterval& t) { return t.end <= interval.start; });
    for (auto at = next; at != part.end() && at->start < interval.end; ++at) {
      if (interval.start < at->start) rest.push_back({interval.start, at->start});
      const Nanoseconds from = std::max(interval.start, at->start);
      interval.start = std::min(interval.end, at->end);
      if (from < interval.start) taken.push_back({from, interval.start});
    }
    if (interval.start < interval.end) rest.push_back(interval);
  }
  left = std::move(rest);
  return taken;
}

using Cause = Nanoseconds IdleCauses::*;

void add_part(TimeInterval time, Cause cause, std::vector<IdlePart>& to) {
  if (time.start < time.end) to.push_back({time, cause});
}

void add_parts(const std::vector<TimeInterval>& times, Cause cause, std::vector<IdlePart>& to) {
  for (const TimeInterval& time : times) add_part(time, cause, to);
}

// What host threads did besides launching events: calls that blocked them, the recorder's work and work of their own.
class Host {
 public:
  explicit Host(const Trace& trace) : work_(trace.devices.size()) {
    std::map<int, std::vector<TimeInterval>> calls;
    for (const Launch& launch : trace.launches)
      if (launch.event >= 0)
        by_event_.emplace_back(launch.event, Call{launch.thread, launch.start, launch.end});
      else
        calls[launch.thread].push_back({launch.start, launch.end});
    std::sort(by_event_.begin(), by_event_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& [thread, intervals] : calls) blocked_[thread] = merge(std::move(intervals));
    lacks_host_calls_ = !trace.simulated && !knows_launches();
    for (const Event& event : trace.events) {
      if (event.kind == EventKind::profiler) recorder_.push_back({event.start, event.end()});
      if (event.kind == EventKind::host) work_.at(as_index(event.device)).push_back({event.start, event.end()});
    }
    recorder_ = merge(std::move(recorder_));
    for (std::vector<TimeInterval>& work : work_) work = merge(std::move(work));
  }

  struct Call {
    int thread = -1;
    Nanoseconds start{0};
    Nanoseconds end{0};
  };

  [[nodiscard]] const Call* launch_of(int event) const {
    const auto found = std::lower_bound(by_event_.begin(), by_event_.end(), event, [](const auto& a, int b) { return a.first < b; });
    return found == by_event_.end() || found->first != event ? nullptr : &found->second;
  }

  [[nodiscard]] bool knows_launches() const { return !by_event_.empty(); }

  // Adds the time `late` to its causes, in this order: the recorder, a call that blocked `thread`, work of the host. The rest counts as
  // host if the launch is `known` and the trace holds the host's calls, else as unexplained.
  void add(TimeInterval late, int device, int thread, bool known, std::vector<IdlePart>& to) const {
    std::vector<TimeInterval> left{late};
    add_parts(take(left, recorder_), &IdleCauses::profiler, to);
    if (const auto found = blocked_.find(thread); found != blocked_.end()) add_parts(take(left, found->second), &IdleCauses::sync, to);
    add_parts(take(left, work_.at(as_index(device))), &IdleCauses::host, to);
    add_parts(left, lacks_host_calls_ || !known ? &IdleCauses::unexplained : &IdleCauses::host, to);
  }

 private:
  std::vector<std::pair<int, Call>> by_event_;
  std::map<int, std::vector<TimeInterval>> blocked_;
  std::vector<TimeInterval> recorder_;
  std::vector<std::vector<TimeInterval>> work_;  // by device
  bool lacks_host_calls_ = false;                // the trace holds no calls of the host
};

// Every device's compute events in order of start, and the inputs of those that depend on another lane.
struct Compute {
  std::vector<std::vector<int>> events;       // by device
  std::vector<std::pair<int, Input>> inputs;  // by event

  [[nodiscard]] Input input_of(int event) const {
    const auto found = std::lower_bound(inputs.begin(), inputs.end(), event, [](const auto& a, int b) { return a.first < b; });
    return found == inputs.end() || found->first != event ? Input{} : found->second;
  }
};

std::vector<std::size_t> compute_counts(const Trace& trace) {
  std::vector<std::size_t> counts(trace.devices.size(), 0);
  for (const Event& event : trace.events)
    if (is_compute(event.kind)) ++counts.at(as_index(event.device));
  return counts;
}

Compute compute_of(const Trace& trace, const Producers& producers) {
  Compute result;
  for (const std::size_t count : compute_counts(trace)) result.events.emplace_back().reserve(count);
  std::map<std::pair<int, int>, Input> before;  // by lane: latest input of its events since its last compute event
  for (int i = 0; i < static_cast<int>(trace.events.size()); ++i) {
    const Event& event = trace.events[as_index(i)];
    if (event.kind == EventKind::copy || event.kind == EventKind::profiler) continue;
    Input& input = before[{event.device, event.lane}];
    input.take_later(producers.input_of(i));
    if (!is_compute(event.kind)) continue;
    result.events[as_index(event.device)].push_back(i);
    if (input.arrived != kLongAgo) result.inputs.emplace_back(i, std::exchange(input, Input{}));
  }
  return result;
}

class Attribution {
 public:
  Attribution(const Trace& trace, const Compute& compute, const Host& host)
      : trace_(trace), compute_(compute), host_(host), knows_nothing_(trace.edges.empty() && !host.knows_launches()) {}

  // `next` is the next compute event of `device` in the step, -1 if none follows. `last_end` is when the last device ended its work.
  void add(TimeInterval idle, int device, int next, Nanoseconds last_end, std::vector<IdlePart>& to) const {
    if (knows_nothing_) {
      add_part(idle, &IdleCauses::unexplained, to);
    } else if (next < 0) {
      const Nanoseconds others = std::clamp(last_end, idle.start, idle.end);
      add_part({idle.start, others}, nullptr, to);
      host_.add({others, idle.end}, device, -1, true, to);
    } else {
      add_before(idle, device, next, to);
    }
  }

 private:
  void add_before(TimeInterval idle, int device, int next, std::vector<IdlePart>& to) const {
    const Host::Call* launch = host_.launch_of(next);
    const bool separate = launch != nullptr && launch->end <= trace_.events[as_index(next)].start;
    const Input input = compute_.input_of(next);
    const Nanoseconds produced = std::clamp(input.produced, idle.start, idle.end);
    const Nanoseconds arrived = std::clamp(input.arrived, produced, idle.end);
    add_part({idle.start, produced}, nullptr, to);
    add_part({produced, arrived}, &IdleCauses::copy_wait, to);
    if (!separate) {
      const bool known = launch != nullptr || !host_.knows_launches();
      return host_.add({arrived, idle.end}, device, launch == nullptr ? -1 : launch->thread, known, to);
    }
    const bool late = launch->start > idle.start;
    const Nanoseconds launched = late ? std::clamp(launch->end, arrived, idle.end) : arrived;
    host_.add({arrived, launched}, device, launch->thread, true, to);
    const Nanoseconds usual = std::min(idle.end, launched + kLaunchLatency);
    add_part({launched, usual}, &IdleCauses::host, to);
    add_part({usual, idle.end}, &IdleCauses::unexplained, to);
  }

  const Trace& trace_;
  const Compute& compute_;
  const Host& host_;
  bool knows_nothing_;  // the trace holds neither edges nor launches
};

Nanoseconds last_end_within(const std::vector<Busy>& busy, TimeInterval window) {
  Nanoseconds last = window.start;
  const auto consider = [&](const std::vector<TimeInterval>& intervals) {
    const auto after =
        std::partition_point(intervals.begin(), intervals.end(), [&](const TimeInterval& t) { return t.start < window.end; });
    if (after != intervals.begin()) last = std::max(last, std::min(std::prev(after)->end, window.end));
  };
  for (const Busy& device : busy) {
    consider(device.compute);
    consider(device.copy);
  }
  return last;
}

// The idle intervals of a trace's devices, one window at a time.
class IdleTimes {
 public:
  IdleTimes(const Trace& trace, const std::vector<Busy>& busy)
      : trace_(trace), busy_(busy), host_(trace), compute_(compute_of(trace, Producers(trace))), attribution_(trace, compute_, host_) {}

  // Returns the idle parts of one device; `last_end` as in Attribution::add.
  [[nodiscard]] std::vector<IdlePart> parts_of(std::size_t device, TimeInterval window, Nanoseconds last_end) const {
    const std::vector<int>& events = compute_.events[device];
    const auto start_of = [&](int event) { return trace_.events[as_index(event)].start; };
    std::vector<IdlePart> parts;
    for (const TimeInterval& idle : idle_within(busy_[device], window)) {
      const auto next = std::partition_point(events.begin(), events.end(), [&](int e) { return start_of(e) < idle.end; });
      const bool in_step = next != events.end() && start_of(*next) < window.end;
      attribution_.add(idle, static_cast<int>(device), in_step ? *next : -1, last_end, parts);
    }
    return parts;
  }

 private:
  const Trace& trace_;
  const std::vector<Busy>& busy_;
  Host host_;
  Compute compute_;
  Attribution attribution_;
};

}  // namespace

std::vector<std::vector<DirectCauses>> direct_causes(const Trace& trace, const std::vector<Busy>& busy,
                                                     const std::vector<StepWindow>& windows) {
  const IdleTimes times(trace, busy);
  std::vector<std::vector<DirectCauses>> result;
  for (const StepWindow& step : windows) {
    const TimeInterval window{step.start, step.end};
    const Nanoseconds last_end = last_end_within(busy, window);
    auto& devices = result.emplace_back(busy.size());
    for (std::size_t d = 0; d < busy.size(); ++d) {
      for (const IdlePart& part : times.parts_of(d, window, last_end))
        (part.cause == nullptr ? devices[d].dependency : devices[d].causes.*part.cause) += part.time.end - part.time.start;
    }
  }
  return result;
}

std::vector<std::vector<IdlePart>> idle_parts(const Trace& trace, const StepWindow& step) {
  const std::vector<Busy> busy = busy_times(trace);
  const IdleTimes times(trace, busy);
  const TimeInterval window{step.start, step.end};
  const Nanoseconds last_end = last_end_within(busy, window);
  std::vector<std::vector<IdlePart>> result;
  for (std::size_t d = 0; d < busy.size(); ++d) {
    std::vector<IdlePart>& parts = result.emplace_back(times.parts_of(d, window, last_end));
    std::ranges::stable_sort(parts, {}, [](const IdlePart& part) { return part.time.start; });
  }
  return result;
}

}  // namespace mptune::profiler
