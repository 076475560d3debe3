#include "profiler/trace/collect/host_collector.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "profiler/base/index.h"
#include "profiler/trace/values/trace_builder.h"

namespace mptune {

namespace {

struct Placed {
  Event event;
  Tag tag;
  Copy copy;
  int thread = 0;
  int further = 0;
  int sender = -1;
};

/// Identifies the output of an action: (step, stage, micro-batch, is backward).
using Hand = std::tuple<int, int, int, bool>;

bool is_backward(EventKind kind) {
  return kind == EventKind::backward || kind == EventKind::backward_input || kind == EventKind::recompute;
}

/// Adds edges from the other devices' last actions to reductions and updates. Some of these start before all actions have ended: they do
/// not wait for actions that still run. Requires: ordered by start.
void add_barriers(Trace& trace, const std::vector<Placed>& placed) {
  std::map<int, std::map<int, int>> last_action;  // by step and device
  for (int i = 0; i < static_cast<int>(placed.size()); ++i) {
    const auto& [event, tag, copy, thread, further, sender] = placed[as_index(i)];
    std::map<int, int>& devices = last_action[tag.step];
    if (event.kind == EventKind::forward || is_backward(event.kind) || event.kind == EventKind::backward_weight) devices[event.device] = i;
    if (event.kind != EventKind::optimizer && event.kind != EventKind::reduce) continue;
    if (!devices.contains(event.device)) continue;  // replicas receive their parameters before their first action
    for (const auto& [device, action] : devices)
      if (device != event.device && placed[as_index(action)].event.end() <= event.start) trace.edges.push_back({action, i, EdgeKind::data});
  }
}

/// Adds edges for the order of each lane, and for data: from a stage to its copies, and from the copies to the stage that gets them.
void add_edges(Trace& trace, const std::vector<Placed>& placed) {
  std::map<std::pair<int, int>, int> last_on_lane;
  std::map<Hand, int> last_of;
  std::map<Hand, std::vector<int>> arrivals;
  for (int i = 0; i < static_cast<int>(placed.size()); ++i) {
    const auto& [event, tag, copy, thread, further, sender] = placed[as_index(i)];
    const auto [before, first] = last_on_lane.try_emplace({event.device, event.lane}, i);
    if (!first) {
      trace.edges.push_back({before->second, i, EdgeKind::order});
      before->second = i;
    }
    if (tag.stage < 0) continue;
    if (event.kind == EventKind::copy) {
      const auto producer = last_of.find({tag.step, sender, tag.microbatch, copy.gradient});
      if (producer != last_of.end()) trace.edges.push_back({producer->second, i, EdgeKind::data});
      // Saved activations that come back from the host are for the backward.
      arrivals[{tag.step, tag.stage, tag.microbatch, copy.gradient || copy.source < 0}].push_back(i);
    } else if (event.kind == EventKind::forward || is_backward(event.kind)) {
      const bool backward = is_backward(event.kind);
      const auto arrived = arrivals.find({tag.step, tag.stage, tag.microbatch, backward});
      if (arrived != arrivals.end() && event.kind != EventKind::recompute) {
        for (const int from : arrived->second) trace.edges.push_back({from, i, EdgeKind::data});
        arrivals.erase(arrived);
      }
      last_of[{tag.step, tag.stage, tag.microbatch, backward}] = i;
    } else if (event.kind == EventKind::backward_weight) {
      // Another device may compute them, once the input gradients of all fused micro-batches have ended.
      for (int microbatch = tag.microbatch; microbatch <= tag.microbatch + further; ++microbatch) {
        const auto input_gradients = last_of.find({tag.step, tag.stage, microbatch, true});
        if (input_gradients != last_of.end() && placed[as_index(input_gradients->second)].event.device != event.device)
          trace.edges.push_back({input_gradients->second, i, EdgeKind::data});
      }
    }
  }
}

}  // namespace

HostCollector::HostCollector(std::vector<TraceDevice> devices) : devices_(std::move(devices)) {}

void HostCollector::start() {
  const std::lock_guard lock(mutex_);
  for (LaneLog& lane : lanes_) lane.entries_.clear();
  steps_.clear();
  memory_.clear();
  started_utc_ns_ = std::chrono::duration_cast<Nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  started_ = std::chrono::steady_clock::now();
}

LaneLog& HostCollector::lane(int device, int lane, const std::string& thread) {
  const std::lock_guard lock(mutex_);
  LaneLog*& found = lane_index_[{device, lane}];
  if (found == nullptr) found = &lanes_.emplace_back(device, lane, thread);
  return *found;
}

int HostCollector::name(const std::string& text) {
  const std::lock_guard lock(mutex_);
  const auto [found, added] = name_index_.try_emplace(text, static_cast<int>(names_.size()));
  if (added) names_.push_back(text);
  return found->second;
}

void HostCollector::add_step(int step, std::chrono::steady_clock::time_point start, std::chrono::steady_clock::time_point end) {
  steps_.push_back({step, start, end});
}

void HostCollector::add_memory(int device, std::int64_t current_bytes) {
  const std::lock_guard lock(mutex_);
  memory_.push_back({std::chrono::steady_clock::now(), device, current_bytes});
}

void LaneLog::end_overlaps() {
  std::ranges::stable_sort(entries_, {}, &Entry::end);
  std::chrono::steady_clock::time_point before{};
  for (Entry& entry : entries_) {
    if (entry.range) continue;
    entry.start = std::min(std::max(entry.start, before), entry.end);
    before = entry.end;
  }
}

HostLog HostCollector::take() {
  const std::lock_guard lock(mutex_);
  HostLog log{devices_, names_, {}, std::exchange(memory_, {}), std::exchange(steps_, {})};
  for (LaneLog& lane : lanes_) log.lanes.push_back({lane.device_, lane.lane_, lane.thread_, std::exchange(lane.entries_, {})});
  return log;
}

void HostCollector::put(const HostLog& log) {
  std::vector<int> names;
  for (const std::string& text : log.names) names.push_back(name(text));
  for (const HostLog::Lane& added : log.lanes) {
    LaneLog& own = lane(added.device, added.lane, added.thread);
    for (LaneLog::Entry entry : added.entries) {
      entry.name = names.at(as_index(entry.name));
      own.entries_.push_back(entry);
    }
    if (added.lane != kComputeLane) own.end_overlaps();
  }
  put_steps(log.steps);
  for (std::size_t d = 0; d < devices_.size(); ++d)
    if (devices_[d].description.empty()) devices_[d] = log.devices.at(d);
  memory_.insert(memory_.end(), log.memory.begin(), log.memory.end());
}

void HostCollector::put_steps(const std::vector<HostLog::Step>& steps) {
  for (const HostLog::Step& added : steps) {
    const auto known = std::ranges::find(steps_, added.step, &HostLog::Step::step);
    if (known == steps_.end()) {
      steps_.push_back(added);
      continue;
    }
    known->start = std::min(known->start, added.start);
    known->end = std::max(known->end, added.end);
  }
  std::ranges::sort(steps_, {}, &HostLog::Step::step);
  for (std::size_t s = 1; s < steps_.size(); ++s) steps_[s].start = std::max(steps_[s].start, steps_[s - 1].end);
}

Trace HostCollector::stop() {
  const std::lock_guard lock(mutex_);
  Trace trace;
  trace.devices = devices_;
  trace.names = names_;
  trace.started_utc_ns = started_utc_ns_;
  const auto since_start = [this](std::chrono::steady_clock::time_point t) {
    return std::chrono::duration_cast<Nanoseconds>(t - started_);
  };

  profiler::TraceBuilder builder(trace);
  std::vector<Placed> leaves;
  for (const LaneLog& lane : lanes_) {
    const int thread = static_cast<int>(trace.threads.size());
    trace.threads.push_back(lane.thread_);
    for (const LaneLog::Entry& entry : lane.entries_) {
      Event event{since_start(entry.start),
                  Nanoseconds{0},
                  entry.name,
                  entry.tag == Tag{} ? -1 : builder.tag(entry.tag),
                  -1,
                  static_cast<std::int16_t>(lane.device_),
                  static_cast<std::uint8_t>(lane.lane_),
                  entry.kind};
      event.duration = since_start(entry.end) - event.start;
      if (entry.range)
        trace.ranges.push_back(event);
      else
        leaves.push_back({event, entry.tag, entry.copy, thread, entry.further, entry.sender});
    }
  }
  std::stable_sort(leaves.begin(), leaves.end(), [](const Placed& a, const Placed& b) { return a.event.start < b.event.start; });
  profiler::order_ranges(trace);

  for (const auto& window : steps_) trace.steps.push_back({window.step, since_start(window.start), since_start(window.end)});
  for (Placed& leaf : leaves) {
    const int index = static_cast<int>(trace.events.size());
    if (leaf.event.kind == EventKind::copy) {
      leaf.event.detail = static_cast<std::int32_t>(trace.copies.size());
      trace.copies.push_back(leaf.copy);
    }
    if (leaf.event.tag < 0) ++trace.quality.untagged;
    const bool inside = std::any_of(trace.steps.begin(), trace.steps.end(),
                                    [&](const StepWindow& w) { return leaf.event.start >= w.start && leaf.event.end() <= w.end; });
    if (!inside) ++trace.quality.out_of_window;
    trace.events.push_back(leaf.event);
    // On a CPU device the same thread launches and runs the work, so the call has the times of the work.
    trace.launches.push_back({index, leaf.thread, leaf.event.name, leaf.event.start, leaf.event.end(), index + 1});
  }
  add_edges(trace, leaves);
  add_barriers(trace, leaves);
  for (const auto& sample : memory_) trace.memory.push_back({since_start(sample.time), sample.device, sample.bytes});
  return trace;
}

}  // namespace mptune
