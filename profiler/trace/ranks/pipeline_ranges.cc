#include "profiler/trace/ranks/pipeline_ranges.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "profiler/base/index.h"
#include "profiler/base/text.h"
#include "profiler/trace/ranks/joined_edges.h"
#include "profiler/trace/ranks/looped_order.h"
#include "profiler/trace/ranks/virtual_stages.h"
#include "profiler/trace/values/settle.h"
#include "profiler/trace/values/trace_builder.h"

namespace mptune::profiler {
namespace {

constexpr std::string_view kDecimal = "0123456789";

// Reads a number that fits; nullopt for other text.
std::optional<int> whole_number(std::string_view text) {
  if (text.empty() || text.find_first_not_of(kDecimal) != std::string_view::npos) return std::nullopt;
  const auto number = integer(text);
  return number && *number < std::numeric_limits<int>::max() ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

// Reads an action such as "1F3".
std::optional<PipelineRange> schedule_action(std::string_view text) {
  constexpr std::string_view kLetters = "FBIW";
  constexpr std::array kKinds{EventKind::forward, EventKind::backward, EventKind::backward_input, EventKind::backward_weight};
  const std::size_t at = text.find_first_not_of(kDecimal);
  const std::size_t letter = at == std::string_view::npos ? at : kLetters.find(text[at]);
  if (letter == std::string_view::npos) return std::nullopt;
  const auto stage = whole_number(text.substr(0, at)), microbatch = whole_number(text.substr(at + 1));
  if (!stage || !microbatch) return std::nullopt;
  return PipelineRange{kKinds[letter], *stage, *microbatch};
}

// Returns the function's name in "schedules.py(284): forward_step"; other names as they are.
std::string_view function_of(std::string_view name) {
  constexpr std::string_view kBehindLine = "): ";
  const std::size_t at = name.rfind(kBehindLine);
  return at == std::string_view::npos ? name : name.substr(at + kBehindLine.size());
}

std::optional<PipelineRange> named_step(std::string_view name) {
  if (const std::string_view function = function_of(name); function.size() != name.size()) {
    if (function == "forward_one_chunk") return PipelineRange{.kind = EventKind::forward};
    if (function == "backward_one_chunk") return PipelineRange{.kind = EventKind::backward};
    if (function == "backward_weight_one_chunk") return PipelineRange{.kind = EventKind::backward_weight};
    name = function;
  }
  if (const std::size_t path = name.find_last_of("./"); path != std::string_view::npos) name.remove_prefix(path + 1);
  std::string plain;
  for (const char letter : name) plain += letter == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  if (plain == "forward_step" || plain == "forward_compute") return PipelineRange{.kind = EventKind::forward};
  if (plain == "backward_step" || plain == "backward_compute") return PipelineRange{.kind = EventKind::backward};
  return std::nullopt;
}

/// A range on a device, with its step.
struct DeviceRange {
  Nanoseconds start{0};
  Nanoseconds end{0};
  int step = 0;
  PipelineRange range;
  std::optional<PipelineRange> beside = std::nullopt;  ///< the backward that runs at once with the forward `range`
};

using RangesOfDevices = std::map<int, std::vector<DeviceRange>>;

// Returns, by device, where its own steps begin. The common steps of several ranks begin when the first of them does.
std::map<int, std::vector<Nanoseconds>> step_starts(const Trace& trace) {
  std::map<int, std::vector<Nanoseconds>> starts;
  for (const Event& range : trace.ranges)
    if (range.kind == EventKind::step) starts[range.device].push_back(range.start);
  for (auto& [device, times] : starts) std::ranges::sort(times);
  return starts;
}

// Returns the number of the step on its device, from 0; -1: before the first.
int step_of_range(const Trace& trace, const std::map<int, std::vector<Nanoseconds>>& starts, const Event& range) {
  const auto own = starts.find(range.device);
  if (own == starts.end()) return trace.steps.empty() ? 0 : step_at(trace.steps, range.start);
  return static_cast<int>(std::ranges::upper_bound(own->second, range.start) - own->second.begin()) - 1;
}

RangesOfDevices outer_ranges(const Trace& trace) {
  RangesOfDevices devices;
  const std::map<int, std::vector<Nanoseconds>> starts = step_starts(trace);
  for (const Event& event : trace.ranges) {
    if (event.device < 0) continue;
    const std::string& name = trace.names[as_index(event.name)];
    const int step = step_of_range(trace, starts, event);
    if (const auto range = pipeline_range_of(name))
      devices[event.device].push_back({event.start, event.end(), step, *range});
    else if (const auto both = overlapped_ranges_of(name))
      devices[event.device].push_back({event.start, event.end(), step, both->first, both->second});
  }
  for (auto& [device, ranges] : devices) {
    std::ranges::stable_sort(ranges, {}, [](const DeviceRange& range) { return std::pair(range.start, -range.end); });
    Nanoseconds end = Nanoseconds::min();
    std::erase_if(ranges, [&](const DeviceRange& range) { return range.start < end || (end = range.end, false); });
  }
  return devices;
}

void number_ranges(RangesOfDevices& devices) {
  for (auto& [device, ranges] : devices) {
    std::map<std::pair<int, EventKind>, int> next;
    for (DeviceRange& one : ranges)
      if (int& number = next[{one.step, one.range.kind}]; one.range.microbatch < 0 && one.range.kind != EventKind::optimizer)
        one.range.microbatch = number++;
  }
}

// Returns how the first step with forwards and backwards begins; without forwards if there is none.
WarmUp warm_up(const std::vector<DeviceRange>& ranges) {
  std::map<int, std::pair<WarmUp, bool>> steps;  // and whether a backward came
  for (const DeviceRange& one : ranges) {
    auto& [warm, ended] = steps[one.step];
    if (one.range.kind == EventKind::forward) ++warm.forwards;
    if (one.range.kind == EventKind::forward && !ended) ++warm.before_backward;
    if (one.range.kind == EventKind::backward || one.range.kind == EventKind::backward_input) ended = true;
  }
  for (const auto& [step, counted] : steps)
    if (step >= 0 && counted.first.before_backward > 0 && counted.second) return counted.first;
  return {};
}

bool knows_stages(const Trace& trace) {
  return std::ranges::any_of(trace.tags, [](const Tag& tag) { return tag.stage > 0; });
}

/// Returns stage and replica by device; empty: not known.
std::map<int, std::pair<int, int>> stages_by_warm_up(const Trace& trace, const RangesOfDevices& devices) {
  std::map<int, std::vector<int>> with;  // devices by warm-up
  for (const auto& [device, ranges] : devices) with[warm_up(ranges).before_backward].push_back(device);
  if (knows_stages(trace) || devices.size() != trace.devices.size() || with.size() < 2 || with.contains(0)) return {};
  const auto stages = static_cast<int>(with.size());
  const auto& [least, last] = *with.begin();
  if (with.rbegin()->first != least + stages - 1) return {};
  std::map<int, std::pair<int, int>> places;
  for (const auto& [forwards, members] : with) {
    if (members.size() != last.size()) return {};
    for (std::size_t replica = 0; replica < members.size(); ++replica)
      places[members[replica]] = {least + stages - 1 - forwards, static_cast<int>(replica)};
  }
  return places;
}

// Sets stage and micro-batch of the nth forward and the nth backward of a device in a step.
void name_looped(std::vector<DeviceRange>& ranges, int place, const VirtualStages& stages) {
  const std::vector<std::pair<int, int>> order =
      looped_order(stages.ranks, stages.chunks, stages.microbatches, stages.chunks * stages.microbatches);
  std::map<std::pair<int, EventKind>, std::size_t> next;
  for (DeviceRange& one : ranges) {
    const bool forward = one.range.kind == EventKind::forward;
    if (!forward && one.range.kind != EventKind::backward) continue;
    const std::size_t nth = next[{one.step, one.range.kind}]++;
    if (nth >= order.size()) continue;
    const auto& [chunk, microbatch] = order[nth];
    one.range.stage = (forward ? chunk : stages.chunks - 1 - chunk) * stages.ranks + place;
    one.range.microbatch = microbatch;
  }
}

// Names the stages of a schedule with virtual stages whose ranges have no numbers.
void name_virtual_stages(const Trace& trace, RangesOfDevices& devices) {
  const auto has_number = [](const DeviceRange& one) { return one.range.stage >= 0 || one.range.microbatch >= 0; };
  std::map<int, WarmUp> warm_ups;
  for (const auto& [device, ranges] : devices) {
    if (std::ranges::any_of(ranges, has_number)) return;
    warm_ups[device] = warm_up(ranges);
  }
  if (warm_ups.size() != trace.devices.size()) return;
  const bool from_messages = knows_stages(trace);
  for (const Event& event : trace.events)
    if (event.tag >= 0 && from_messages) warm_ups[event.device].stage = trace.tags[as_index(event.tag)].stage;
  const auto stages = virtual_stages_of(warm_ups);
  if (!stages) return;
  for (auto& [device, ranges] : devices) name_looped(ranges, stages->place.at(device), *stages);
}

const DeviceRange* range_at(const std::vector<DeviceRange>& ranges, Nanoseconds time) {
  const auto after = std::ranges::partition_point(ranges, [&](const DeviceRange& range) { return range.start <= time; });
  return after == ranges.begin() || std::prev(after)->end <= time ? nullptr : &*std::prev(after);
}

// Threads that launch work within ranges of a forward alone, by device.
using ForwardThreads = std::set<std::pair<int, int>>;

ForwardThreads forward_threads(const Trace& trace, const RangesOfDevices& devices) {
  ForwardThreads threads;
  for (const Launch& launch : trace.launches) {
    if (launch.event < 0) continue;
    const int device = trace.events[as_index(launch.event)].device;
    const auto found = devices.find(device);
    const DeviceRange* within = found == devices.end() ? nullptr : range_at(found->second, launch.start);
    if (within != nullptr && !within->beside && within->range.kind == EventKind::forward) threads.insert({device, launch.thread});
  }
  return threads;
}

// Returns what a launch within a range belongs to; null if that is not known.
const PipelineRange* launched_in(const DeviceRange& within, int device, int thread, const ForwardThreads& forwards) {
  if (!within.beside || forwards.contains({device, thread})) return &within.range;
  const auto any = forwards.lower_bound({device, std::numeric_limits<int>::min()});
  return any != forwards.end() && any->first == device ? &*within.beside : nullptr;
}

// Returns the replicas of devices if ranges name stages: devices with the same stage are its replicas.
std::map<std::pair<int, int>, int> replicas_of_named(const RangesOfDevices& devices) {
  std::map<int, int> count;
  std::map<std::pair<int, int>, int> replicas;  // by device and stage
  for (const auto& [device, ranges] : devices)
    for (const DeviceRange& one : ranges)
      for (const int stage : {one.range.stage, one.beside ? one.beside->stage : -1})
        if (stage >= 0 && replicas.try_emplace({device, stage}, count[stage]).second) ++count[stage];
  return replicas;
}

}  // namespace

std::optional<std::pair<PipelineRange, PipelineRange>> overlapped_ranges_of(const std::string& name) {
  constexpr std::string_view kBegin = "PP:(", kEnd = ")OVERLAP_F_B";
  std::string_view text = name;
  if (!text.starts_with(kBegin) || !text.ends_with(kEnd) || text.size() < kBegin.size() + kEnd.size()) return std::nullopt;
  text = text.substr(kBegin.size(), text.size() - kBegin.size() - kEnd.size());
  const std::size_t middle = text.find(';');
  if (middle == std::string_view::npos) return std::nullopt;
  auto forward = schedule_action(text.substr(0, middle)), backward = schedule_action(text.substr(middle + 1));
  if (!forward || !backward) return std::nullopt;
  if (forward->kind != EventKind::forward) std::swap(forward, backward);
  if (forward->kind != EventKind::forward || backward->kind == EventKind::forward) return std::nullopt;
  return std::pair(*forward, *backward);
}

std::optional<PipelineRange> pipeline_range_of(const std::string& name) {
  constexpr std::string_view kSchedule = "PP:", kForward = "Forward ", kBackward = "Backward ", kOptimizer = "Optimizer.step#";
  const std::string_view text = name;
  if (text.starts_with(kSchedule)) return schedule_action(text.substr(kSchedule.size()));
  if (text.starts_with(kOptimizer)) return PipelineRange{.kind = EventKind::optimizer};
  for (const auto& [begin, kind] : {std::pair(kForward, EventKind::forward), std::pair(kBackward, EventKind::backward)})
    if (const auto number = text.starts_with(begin) ? whole_number(text.substr(begin.size())) : std::nullopt)
      return PipelineRange{kind, -1, *number};
  return named_step(text);
}

void tag_pipeline_ranges(Trace& trace) {
  RangesOfDevices devices = outer_ranges(trace);
  if (devices.empty()) return;
  name_virtual_stages(trace, devices);
  number_ranges(devices);
  const auto stages = stages_by_warm_up(trace, devices);
  const auto replicas = replicas_of_named(devices);
  const ForwardThreads forwards = forward_threads(trace, devices);
  std::vector<std::pair<Nanoseconds, int>> called(trace.events.size(), {Nanoseconds::min(), -1});
  for (const Launch& launch : trace.launches)
    if (launch.event >= 0) called[as_index(launch.event)] = {launch.start, launch.thread};
  TraceBuilder builder(trace);
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    Event& event = trace.events[i];
    const auto found = devices.find(event.device);
    if (event.tag < 0 || found == devices.end()) continue;
    Tag tag = trace.tags[as_index(event.tag)];
    if (const auto place = stages.find(event.device); place != stages.end()) std::tie(tag.stage, tag.replica) = place->second;
    const DeviceRange* within = range_at(found->second, called[i].first);
    const PipelineRange* range = within == nullptr ? nullptr : launched_in(*within, event.device, called[i].second, forwards);
    if (computes(event)) tag.microbatch = range == nullptr ? -1 : range->microbatch;
    if (range != nullptr && range->stage >= 0) {
      tag.stage = range->stage;
      tag.replica = replicas.at({event.device, tag.stage});
    }
    if (range != nullptr && event.kind == EventKind::kernel) event.kind = range->kind;
    event.tag = builder.tag(tag);
  }
}

}  // namespace mptune::profiler
