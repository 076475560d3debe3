#include "profiler/trace/ranks/rank_tags.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "profiler/base/index.h"
#include "profiler/trace/ranks/joined_edges.h"
#include "profiler/trace/ranks/pipeline_ranges.h"
#include "profiler/trace/values/settle.h"
#include "profiler/trace/values/trace_builder.h"

namespace mptune::profiler {
namespace {

/// True for a copy between two devices, which it puts into `copy`.
bool is_message(const Trace& trace, const Event& event, Copy& copy) {
  if (event.kind != EventKind::copy || event.detail < 0) return false;
  copy = trace.copies[as_index(event.detail)];
  return copy.source >= 0 && copy.destination >= 0 && copy.source != copy.destination;
}

/// Devices in groups, each known by its lowest device.
class Groups {
 public:
  explicit Groups(std::size_t devices) : of_(devices) { std::iota(of_.begin(), of_.end(), 0); }
  int find(int device) {
    while (of_[as_index(device)] != device) device = of_[as_index(device)] = of_[as_index(of_[as_index(device)])];
    return device;
  }
  void join(int a, int b) {
    a = find(a);
    b = find(b);
    of_[as_index(std::max(a, b))] = std::min(a, b);
  }

 private:
  std::vector<int> of_;
};

// Returns the step of an event. A trace without steps counts as one.
int step_of(const Trace& trace, const Event& event) {
  return trace.steps.empty() ? 0 : step_at(trace.steps, event.start);
}

// Returns, by device, the place of its first receive among the messages of all steps; 0 if it sends before, -1 without messages.
std::vector<int> first_receives(const Trace& trace) {
  std::vector<int> first(trace.devices.size(), -1);
  int place = 0;
  for (const Event& event : trace.events) {
    Copy copy;
    if (!is_message(trace, event, copy)) continue;
    if (step_of(trace, event) < 0) continue;
    ++place;
    for (const auto& [device, key] : {std::pair(copy.source, 0), std::pair(copy.destination, place)})
      if (first[as_index(device)] < 0) first[as_index(device)] = key;
  }
  return first;
}

class Tagger {
 public:
  explicit Tagger(Trace& trace) : trace_(trace), stages_(stages_of_devices(trace)), builder_(trace) {
    sends_.resize(trace.events.size());
    waits_.resize(trace.events.size());
    for (const Edge& edge : trace.edges) {
      sends_[as_index(edge.producer)] = true;
      waits_[as_index(edge.consumer)] = true;
    }
  }

  void tag() {
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      Event& event = trace_.events[i];
      const int step = step_of(trace_, event);
      if (step < 0) continue;
      const RankStage& place = stages_[as_index(event.device)];
      event.tag = builder_.tag({step, place.stage, number_of(i, step), -1, place.replica});
    }
  }

 private:
  int number_of(std::size_t index, int step) {
    const Event& event = trace_.events[index];
    if (!computes(event)) return counts_[{step, event.device, event.lane, event.kind}]++;
    Pieces& pieces = pieces_[{step, event.device}];
    if (pieces.ended || (waits_[index] && pieces.begun)) ++pieces.number;
    pieces.begun = true;
    pieces.ended = sends_[index];
    return pieces.number;
  }

  /// The pieces of work of one device in one step.
  struct Pieces {
    int number = 0;
    bool begun = false;
    bool ended = false;  ///< by a communication that follows its last computation
  };

  Trace& trace_;
  std::vector<RankStage> stages_;
  TraceBuilder builder_;
  std::vector<bool> sends_, waits_;  // by event
  std::map<std::pair<int, int>, Pieces> pieces_;
  std::map<std::tuple<int, int, int, EventKind>, int> counts_;
};

}  // namespace

std::vector<RankStage> stages_of_devices(const Trace& trace) {
  Groups groups(trace.devices.size());
  for (const Event& event : trace.events) {
    Copy copy;
    if (is_message(trace, event, copy)) groups.join(copy.source, copy.destination);
  }
  const std::vector<int> first = first_receives(trace);
  std::map<int, std::vector<int>> pipelines;  // by lowest device
  for (int device = 0; device < static_cast<int>(trace.devices.size()); ++device) pipelines[groups.find(device)].push_back(device);
  std::vector<RankStage> stages(trace.devices.size());
  int replica = 0;
  for (auto& [lowest, devices] : pipelines) {
    std::ranges::stable_sort(devices, {}, [&](int device) { return first[as_index(device)]; });
    for (std::size_t s = 0; s < devices.size(); ++s) stages[as_index(devices[s])] = {static_cast<int>(s), replica};
    ++replica;
  }
  return stages;
}

void tag_ranks(Trace& trace) {
  Tagger(trace).tag();
  tag_pipeline_ranges(trace);
}

}  // namespace mptune::profiler
