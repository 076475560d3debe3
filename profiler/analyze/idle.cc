#include "mptune/profiler/analyze/idle.h"

#include <algorithm>
#include <map>
#include <utility>

namespace mptune {
namespace {

constexpr Nanoseconds kLongAgo = Nanoseconds::min();

// When what an event waited for was there, and since when it was on its way.
struct Input {
  Nanoseconds made = kLongAgo;   // the producing work had ended
  Nanoseconds there = kLongAgo;  // it had arrived: later than made where a copy carried it

  void take_later(const Input& other) {
    if (other.there > there) *this = other;
  }
};

// Edges between lanes, by consumer.
class Producers {
 public:
  explicit Producers(const Trace& trace) : trace_(trace) {
    for (const Edge& edge : trace.edges) {
      if (edge.kind != EdgeKind::order) pairs_.emplace_back(edge.consumer, edge.producer);
    }
    std::sort(pairs_.begin(), pairs_.end());
  }

  [[nodiscard]] Input input_of(int event) const {
    Input latest;
    for (auto pair = first(event); pair != pairs_.end() && pair->first == event; ++pair) {
      const Event& producer = trace_.events.at(static_cast<std::size_t>(pair->second));
      Input input{producer.end(), producer.end()};
      if (producer.what == What::copy) input.made = std::min(input.there, made_for(pair->second));
      latest.take_later(input);
    }
    return latest;
  }

 private:
  using Pairs = std::vector<std::pair<int, int>>;

  [[nodiscard]] Pairs::const_iterator first(int event) const {
    return std::lower_bound(pairs_.begin(), pairs_.end(), std::pair(event, -1));
  }

  // What a copy carries was made when its producers ended; a copy without any is taken to have begun at once.
  [[nodiscard]] Nanoseconds made_for(int copy) const {
    Nanoseconds made = kLongAgo;
    for (auto pair = first(copy); pair != pairs_.end() && pair->first == copy; ++pair) {
      made = std::max(made, trace_.events.at(static_cast<std::size_t>(pair->second)).end());
    }
    return made == kLongAgo ? trace_.events[static_cast<std::size_t>(copy)].start : made;
  }

  const Trace& trace_;
  Pairs pairs_;
};

// What host threads did beside starting the events: calls that held them, and the recorder.
class Host {
 public:
  explicit Host(const Trace& trace) {
    std::map<int, std::vector<TimeInterval>> calls;
    for (const Launch& launch : trace.launches) {
      if (launch.event >= 0) {
        by_event_.emplace_back(launch.event, Call{launch.thread, launch.start, launch.end});
      } else {
        calls[launch.thread].push_back({launch.start, launch.end});
      }
    }
    std::sort(by_event_.begin(), by_event_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& [thread, intervals] : calls) blocked_[thread] = merge(std::move(intervals));
    std::vector<TimeInterval> recorder;
    for (const Event& event : trace.events) {
      if (event.what == What::profiler) recorder.push_back({event.start, event.end()});
    }
    recorder_ = merge(std::move(recorder));
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

  // Adds [late] to the causes that kept `thread`: the recorder, a call, or nothing we know: host.
  void add(TimeInterval late, int thread, IdleCauses& causes) const {
    const std::vector<TimeInterval> whole{late};
    const std::vector<TimeInterval> recorder = intersect(whole, recorder_);
    causes.profiler += total(recorder);
    Nanoseconds left = late.end - late.start - total(recorder);
    if (const auto found = blocked_.find(thread); found != blocked_.end()) {
      const std::vector<TimeInterval> blocked = intersect(whole, found->second);
      const Nanoseconds sync = total(blocked) - total(intersect(blocked, recorder));
      causes.sync += sync;
      left -= sync;
    }
    causes.host += left;
  }

 private:
  std::vector<std::pair<int, Call>> by_event_;
  std::map<int, std::vector<TimeInterval>> blocked_;
  std::vector<TimeInterval> recorder_;
};

// Every device's compute events in order of start, and what those that waited for another lane waited for.
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
  for (const Event& event : trace.events) {
    if (is_compute(event.what)) ++counts.at(static_cast<std::size_t>(event.device));
  }
  return counts;
}

Compute compute_of(const Trace& trace, const Producers& producers) {
  Compute result;
  for (const std::size_t count : compute_counts(trace)) result.events.emplace_back().reserve(count);
  std::map<std::pair<int, int>, Input> before;  // by lane: of waits and hand-overs since its last compute event
  for (int i = 0; i < static_cast<int>(trace.events.size()); ++i) {
    const Event& event = trace.events[static_cast<std::size_t>(i)];
    if (event.what == What::copy || event.what == What::profiler) continue;
    Input& input = before[{event.device, event.lane}];
    input.take_later(producers.input_of(i));
    if (!is_compute(event.what)) continue;
    result.events[static_cast<std::size_t>(event.device)].push_back(i);
    if (input.there != kLongAgo) result.inputs.emplace_back(i, std::exchange(input, Input{}));
  }
  return result;
}

class Attribution {
 public:
  Attribution(const Trace& trace, const Compute& compute, const Host& host)
      : trace_(trace),
        compute_(compute),
        host_(host),
        silent_(trace.edges.empty() && !host.knows_launches()),
        host_unseen_(!trace.simulated && !host.knows_launches()) {}

  // `next` is the device's next compute event of the step, -1 where none follows; `last_end` is when the last device ended its work.
  void add(TimeInterval idle, int next, Nanoseconds last_end, DirectCauses& to) const {
    if (silent_) {
      to.causes.unexplained += idle.end - idle.start;
    } else if (next < 0) {
      const Nanoseconds others = std::clamp(last_end, idle.start, idle.end);
      to.dependency += others - idle.start;
      (host_unseen_ ? to.causes.unexplained : to.causes.host) += idle.end - others;
    } else {
      add_before(idle, next, to);
    }
  }

 private:
  void add_before(TimeInterval idle, int next, DirectCauses& to) const {
    const Host::Call* launch = host_.launch_of(next);
    const bool separate = launch != nullptr && launch->end <= trace_.events[static_cast<std::size_t>(next)].start;
    Nanoseconds from = idle.start;
    if (separate && launch->start > idle.start) {
      from = std::clamp(launch->end, idle.start, idle.end);
      host_.add({idle.start, from}, launch->thread, to.causes);
    }
    const Input input = compute_.input_of(next);
    const Nanoseconds made = std::clamp(input.made, from, idle.end);
    const Nanoseconds there = std::clamp(input.there, made, idle.end);
    to.dependency += made - from;
    to.causes.copy_wait += there - made;
    const Nanoseconds rest = idle.end - there;
    if (host_unseen_) {
      to.causes.unexplained += rest;
    } else if (!separate) {
      host_.add({there, idle.end}, launch == nullptr ? -1 : launch->thread, to.causes);
    } else {
      to.causes.host += std::min(rest, kLaunchLatency);
      to.causes.unexplained += rest - std::min(rest, kLaunchLatency);
    }
  }

  const Trace& trace_;
  const Compute& compute_;
  const Host& host_;
  bool silent_;       // the trace says nothing about waits
  bool host_unseen_;  // nor about what the host did: it is not blamed
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

}  // namespace

std::vector<std::vector<DirectCauses>> direct_causes(const Trace& trace, const std::vector<Busy>& busy,
                                                     const std::vector<StepWindow>& windows) {
  const Host host(trace);
  const Compute compute = compute_of(trace, Producers(trace));
  const Attribution attribution(trace, compute, host);
  const auto start_of = [&](int event) { return trace.events[static_cast<std::size_t>(event)].start; };
  std::vector<std::vector<DirectCauses>> result;
  for (const StepWindow& step : windows) {
    const TimeInterval window{step.start, step.end};
    const Nanoseconds last_end = last_end_within(busy, window);
    auto& devices = result.emplace_back(busy.size());
    for (std::size_t d = 0; d < busy.size(); ++d) {
      const std::vector<int>& events = compute.events[d];
      for (const TimeInterval& idle : idle_within(busy[d], window)) {
        const auto next = std::partition_point(events.begin(), events.end(), [&](int e) { return start_of(e) < idle.end; });
        const bool in_step = next != events.end() && start_of(*next) < window.end;
        attribution.add(idle, in_step ? *next : -1, last_end, devices[d]);
      }
    }
  }
  return result;
}

}  // namespace mptune
