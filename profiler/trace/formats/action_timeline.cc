#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/trace/formats/action_places.h"
#include "profiler/trace/formats/action_times.h"
#include "profiler/trace/values/settle.h"
#include "profiler/trace/values/trace_builder.h"

namespace mptune::profiler {
namespace {

using Actions = std::vector<TimedAction>;

// Ranks with weight gradients of their own have split backwards.
void split_backwards(Actions& actions) {
  std::set<int> split;
  for (const TimedAction& action : actions)
    if (action.kind == EventKind::backward_weight) split.insert(action.rank);
  for (TimedAction& action : actions)
    if (action.kind == EventKind::backward && split.contains(action.rank)) action.kind = EventKind::backward_input;
}

// A forward and a backward that were timed as one get a half each.
void part_combined(Actions& actions) {
  std::map<std::tuple<int, int, Nanoseconds, Nanoseconds>, TimedAction*> forwards;
  for (TimedAction& action : actions)
    if (action.kind == EventKind::forward) forwards[{action.iteration, action.rank, action.start, action.end}] = &action;
  for (TimedAction& action : actions) {
    if (action.kind != EventKind::backward && action.kind != EventKind::backward_input) continue;
    const auto found = forwards.find({action.iteration, action.rank, action.start, action.end});
    if (found == forwards.end() || action.start == action.end) continue;
    const Nanoseconds middle = action.start + (action.end - action.start) / 2;
    found->second->end = action.start = middle;
  }
}

// Drops iterations that some rank lacks. Returns how many actions were dropped.
std::int64_t drop_incomplete(Actions& actions) {
  std::map<int, std::set<int>> ranks_of;
  std::set<int> ranks;
  for (const TimedAction& action : actions) {
    ranks_of[action.iteration].insert(action.rank);
    ranks.insert(action.rank);
  }
  return static_cast<std::int64_t>(
      std::erase_if(actions, [&](const TimedAction& action) { return ranks_of[action.iteration].size() < ranks.size(); }));
}

/// How much clocks are moved, by iteration and rank.
using Shifts = std::map<std::pair<int, int>, Nanoseconds>;

// By how much the clock of one rank has to be moved against the clock of another, by both ranks.
using Lateness = std::map<std::pair<int, int>, Nanoseconds>;

// Returns the least shifts under which no rank is late for another; empty if there are none.
std::vector<Nanoseconds> least_shifts(const Lateness& lateness, int ranks) {
  std::vector<Nanoseconds> shift(as_index(ranks), Nanoseconds{0});
  for (int pass = 0; pass <= ranks; ++pass) {
    bool moved = false;
    for (const auto& [pair, late] : lateness) {
      const Nanoseconds least = shift[as_index(pair.first)] + late;
      if (least <= shift[as_index(pair.second)]) continue;
      shift[as_index(pair.second)] = least;
      moved = true;
    }
    if (!moved) return shift;
  }
  return {};
}

Shifts clock_shifts(const Actions& actions, const std::vector<std::pair<int, int>>& dependencies, int ranks) {
  std::map<int, Lateness> by_iteration;
  for (const auto& [from, to] : dependencies) {
    const TimedAction &producer = actions[as_index(from)], &consumer = actions[as_index(to)];
    if (producer.rank == consumer.rank) continue;
    const Nanoseconds late = producer.end - consumer.start;
    const auto [place, is_new] = by_iteration[producer.iteration].try_emplace({producer.rank, consumer.rank}, late);
    if (!is_new) place->second = std::max(place->second, late);
  }
  Shifts shifts;
  for (const auto& [iteration, lateness] : by_iteration) {
    const std::vector<Nanoseconds> shift = least_shifts(lateness, ranks);
    for (std::size_t rank = 0; rank < shift.size(); ++rank) shifts[{iteration, static_cast<int>(rank)}] = shift[rank];
  }
  return shifts;
}

void move_clocks(Actions& actions, const Shifts& shifts) {
  for (TimedAction& action : actions) {
    const auto shift = shifts.find({action.iteration, action.rank});
    if (shift == shifts.end()) continue;
    action.start += shift->second;
    action.end += shift->second;
  }
}

// Puts iteration after iteration on one clock that begins at 0, and returns their windows.
std::vector<StepWindow> lay_out(Actions& actions, const std::string& where) {
  std::map<int, StepWindow> windows;
  for (const TimedAction& action : actions) {
    const auto [place, is_new] = windows.try_emplace(action.iteration, StepWindow{action.iteration, action.start, action.end});
    place->second.start = std::min(place->second.start, action.start);
    place->second.end = std::max(place->second.end, action.end);
  }
  std::map<int, Nanoseconds> offsets;
  std::vector<StepWindow> steps;
  Nanoseconds next{0};
  for (const auto& [iteration, window] : windows) {
    offsets[iteration] = next - window.start;
    const Nanoseconds end = next + (window.end - window.start);
    steps.push_back({iteration, next, end});
    next = end;
    if (next > kLongestRecording)
      throw Error("the iterations span more than 14 months", where, "give times in milliseconds, as Primus writes them");
  }
  for (TimedAction& action : actions) {
    action.start += offsets[action.iteration];
    action.end += offsets[action.iteration];
  }
  return steps;
}

const char* name_of(EventKind kind) {
  if (kind == EventKind::forward) return "forward";
  return kind == EventKind::backward_weight ? "weight gradients" : "backward";
}

// Adds devices only for ranks with a file, so that none seems to idle all the time.
std::vector<int> add_devices(Trace& trace, const ActionTimes& times) {
  std::vector<int> device(as_index(times.ranks), -1);
  for (const TimedAction& action : times.actions) device[as_index(action.rank)] = 0;
  for (std::size_t rank = 0; rank < device.size(); ++rank) {
    if (device[rank] < 0) continue;
    device[rank] = static_cast<int>(trace.devices.size());
    trace.devices.push_back({.name = "rank:" + std::to_string(rank),
                             .description = "rank " + std::to_string(rank) + " of the pipeline",
                             .peak_bytes = rank < times.peak_bytes.size() ? times.peak_bytes[rank] : 0});
  }
  return device;
}

void add_events(Trace& trace, const Actions& actions, const std::vector<int>& device, const ChunkMap& map) {
  TraceBuilder builder(trace);
  for (const TimedAction& action : actions) {
    const int stage = map.stage(action.rank, action.chunk);
    Event event;
    event.start = action.start;
    event.duration = action.end - action.start;
    event.kind = action.kind;
    event.device = static_cast<std::int16_t>(device[as_index(action.rank)]);
    event.name = builder.name(name_of(action.kind));
    event.tag = builder.tag({.step = action.iteration, .stage = stage, .microbatch = action.microbatch, .layer = -1, .replica = 0});
    trace.events.push_back(event);
  }
}

// Edges go from earlier to later events, so they form no cycle.
void add_edges(Trace& trace, const std::vector<std::pair<int, int>>& dependencies) {
  std::map<int, int> last;  // event by device
  for (int i = 0; i < static_cast<int>(trace.events.size()); ++i) {
    const auto [before, is_first] = last.try_emplace(trace.events[as_index(i)].device, i);
    if (!is_first) trace.edges.push_back({before->second, i, EdgeKind::order});
    before->second = i;
  }
  for (const auto& [producer, consumer] : dependencies) {
    const bool same_device = trace.events[as_index(producer)].device == trace.events[as_index(consumer)].device;
    if (producer >= consumer)
      ++trace.quality.unmatched;
    else if (!same_device)
      trace.edges.push_back({producer, consumer, EdgeKind::data});
  }
}

}  // namespace

ActionTimeline timeline_of(ActionTimes times) {
  ActionTimeline result;
  Trace& trace = result.trace;
  if (times.actions.empty()) throw Error("it holds no forward and no backward", times.where, "give what Primus wrote with --dump_pp_data");
  trace.quality.dropped = drop_incomplete(times.actions);
  if (times.actions.empty()) throw Error("no iteration is in the files of all ranks", times.where, "give the files of one job");
  split_backwards(times.actions);
  const ChunkMap map = place_actions(times);
  part_combined(times.actions);
  move_clocks(times.actions, clock_shifts(times.actions, dependencies_of(times.actions, map).pairs, times.ranks));
  trace.steps = lay_out(times.actions, times.where);
  std::ranges::stable_sort(times.actions, {}, [](const TimedAction& action) { return std::tuple(action.start, action.end, action.rank); });
  const ActionDependencies dependencies = dependencies_of(times.actions, map);
  trace.quality.unmatched = dependencies.missing;
  const std::vector<int> device = add_devices(trace, times);
  add_events(trace, times.actions, device, map);
  add_edges(trace, dependencies.pairs);
  settle_lanes(trace);
  settle_steps(trace);
  for (int rank = 0; rank < times.ranks; ++rank)
    if (device[as_index(rank)] < 0) result.missing.push_back(rank);
  return result;
}

}  // namespace mptune::profiler
