#include "profiler/trace/formats/pipeline_timeline.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "profiler/base/index.h"
#include "profiler/trace/formats/pipeline_edges.h"
#include "profiler/trace/formats/pipeline_operations.h"
#include "profiler/trace/values/settle.h"
#include "profiler/trace/values/trace_builder.h"

namespace mptune::profiler {
namespace {

enum class Group { worker, stage_replicas, replica_stages, all };

Group group_of(const std::string& name) {
  if (name.find("clip") != std::string::npos) return Group::all;
  if (name.starts_with("embedding")) return Group::replica_stages;
  if (name.starts_with("layernorm")) return Group::worker;
  return Group::stage_replicas;
}

bool is_send(OperationKind kind) {
  return kind == OperationKind::forward_send || kind == OperationKind::backward_send;
}

bool is_receive(OperationKind kind) {
  return kind == OperationKind::forward_recv || kind == OperationKind::backward_recv;
}

EventKind what_of(OperationKind kind) {
  switch (kind) {
    case OperationKind::forward:
      return EventKind::forward;
    case OperationKind::backward:
      return EventKind::backward;
    case OperationKind::optimizer:
      return EventKind::optimizer;
    case OperationKind::collective:
      return EventKind::collective;
    case OperationKind::host:
      return EventKind::host;
    default:
      return EventKind::copy;
  }
}

class TimelineBuilder {
 public:
  explicit TimelineBuilder(PipelineOperations input) : input_(std::move(input)), builder_(trace_) {}

  Trace build() {
    add_devices();
    add_copies();
    add_others();
    std::stable_sort(items_.begin(), items_.end(), [](const PipelineItem& a, const PipelineItem& b) {
      return std::tuple(a.event.start, a.event.end()) < std::tuple(b.event.start, b.event.end());
    });
    std::int64_t unmatched = 0;
    trace_.edges = pipeline_edges(items_, input_, unmatched);
    add_events();
    add_steps();
    settle_lanes(trace_);
    trace_.quality.dropped += input_.dropped;
    trace_.quality.unmatched += unmatched;
    return std::move(trace_);
  }

 private:
  using Indices = std::vector<std::size_t>;

  void add_devices() {
    for (int replica = 0; replica < input_.replicas; ++replica) {
      for (int stage = 0; stage < input_.stages; ++stage)
        trace_.devices.push_back({.name = "stage:" + std::to_string(stage) + "/" + std::to_string(replica),
                                  .description = "stage " + std::to_string(stage) + " replica " + std::to_string(replica)});
    }
  }

  int neighbour(int stage, bool forwards) const { return (stage + (forwards ? 1 : input_.stages - 1)) % input_.stages; }

  // Pairs sends and receives by micro-batch if both sides state it, else by order.
  void order_by_microbatch(Indices& sends, Indices& receives) const {
    const auto known = [&](std::size_t i) { return input_.operations[i].microbatch >= 0; };
    if (!std::all_of(sends.begin(), sends.end(), known) || !std::all_of(receives.begin(), receives.end(), known)) return;
    const auto before = [&](std::size_t a, std::size_t b) { return input_.operations[a].microbatch < input_.operations[b].microbatch; };
    std::stable_sort(sends.begin(), sends.end(), before);
    std::stable_sort(receives.begin(), receives.end(), before);
  }

  void add_copies() {
    std::map<std::tuple<int, int, bool, int>, std::pair<Indices, Indices>> pairs;  // by step, replica, direction, sending stage
    for (std::size_t i = 0; i < input_.operations.size(); ++i) {
      const PipelineOperation& operation = input_.operations[i];
      if (!is_send(operation.kind) && !is_receive(operation.kind)) continue;
      const bool forwards = operation.kind == OperationKind::forward_send || operation.kind == OperationKind::forward_recv;
      const int sender = is_send(operation.kind) ? operation.stage : neighbour(operation.stage, !forwards);
      auto& [sends, receives] = pairs[{operation.step, operation.replica, forwards, sender}];
      (is_send(operation.kind) ? sends : receives).push_back(i);
    }
    for (auto& [key, sides] : pairs) {
      auto& [sends, receives] = sides;
      order_by_microbatch(sends, receives);
      const std::size_t matched = std::min(sends.size(), receives.size());
      trace_.quality.unmatched += static_cast<std::int64_t>(std::max(sends.size(), receives.size()) - matched);
      for (std::size_t k = 0; k < matched; ++k) add_copy(input_.operations[sends[k]], input_.operations[receives[k]]);
    }
  }

  void add_copy(const PipelineOperation& send, const PipelineOperation& receive) {
    const int destination = input_.device(receive);
    PipelineItem item{.operation = send, .receiver = destination};
    item.event = event_of(send, std::min(std::max(send.start, receive.start), receive.end), receive.end);
    item.event.lane = static_cast<std::uint8_t>(copy_lane(destination));
    item.event.name = builder_.name(send.kind == OperationKind::forward_send ? "copy forward" : kBackwardCopyName);
    items_.push_back(item);
  }

  void add_others() {
    const auto together = last_arrivals();
    for (std::size_t i = 0; i < input_.operations.size(); ++i) {
      const PipelineOperation& operation = input_.operations[i];
      if (is_send(operation.kind) || is_receive(operation.kind)) continue;
      PipelineItem item{.operation = operation, .group = together[i].first};
      item.event = event_of(operation, std::clamp(together[i].second, operation.start, operation.end), operation.end);
      item.event.name = builder_.name(input_.names[as_index(operation.name)]);
      if (operation.kind == OperationKind::collective) item.event.lane = static_cast<std::uint8_t>(1 + input_.devices());
      item.is_gather = input_.names[as_index(operation.name)].starts_with("params");
      items_.push_back(item);
    }
  }

  // Returns, by collective, its group and when the group's last member arrived. Before that the other members wait.
  std::vector<std::pair<int, Nanoseconds>> last_arrivals() const {
    std::map<std::tuple<int, int, int>, int> occurrences;  // by step, device, name
    std::map<std::tuple<int, int, int, int>, int> groups;  // by step, name, occurrence, members
    std::vector<std::pair<int, Nanoseconds>> result(input_.operations.size(), {-1, Nanoseconds{0}});
    std::vector<Nanoseconds> latest;
    for (std::size_t i = 0; i < input_.operations.size(); ++i) {
      const PipelineOperation& operation = input_.operations[i];
      if (operation.kind != OperationKind::collective) continue;
      const int occurrence = occurrences[{operation.step, input_.device(operation), operation.name}]++;
      const auto [place, is_new] =
          groups.try_emplace({operation.step, operation.name, occurrence, members(operation)}, static_cast<int>(groups.size()));
      if (is_new) latest.push_back(operation.start);
      Nanoseconds& last = latest[as_index(place->second)];
      last = std::max(last, operation.start);
      result[i].first = place->second;
    }
    for (auto& [group, arrival] : result)
      if (group >= 0) arrival = latest[as_index(group)];
    return result;
  }

  int members(const PipelineOperation& operation) const {
    switch (group_of(input_.names[as_index(operation.name)])) {
      case Group::worker:
        return input_.device(operation);
      case Group::stage_replicas:
        return operation.stage;
      case Group::replica_stages:
        return operation.replica;
      case Group::all:
        return 0;
    }
    return 0;
  }

  Event event_of(const PipelineOperation& operation, Nanoseconds start, Nanoseconds end) {
    Event event;
    event.start = start;
    event.duration = end - start;
    event.kind = what_of(operation.kind);
    event.device = static_cast<std::int16_t>(input_.device(operation));
    return event;
  }

  void add_events() {
    for (PipelineItem& item : items_) {
      const PipelineOperation& operation = item.operation;
      const int stage = operation.chunk * input_.stages + operation.stage;
      item.event.tag =
          builder_.tag({.step = operation.step, .stage = stage, .microbatch = operation.microbatch, .replica = operation.replica});
      if (item.receiver >= 0) {
        item.event.detail = static_cast<std::int32_t>(trace_.copies.size());
        trace_.copies.push_back(
            {.source = item.event.device, .destination = item.receiver, .gradient = operation.kind == OperationKind::backward_send});
      }
      trace_.events.push_back(item.event);
    }
  }

  void add_steps() {
    std::map<int, StepWindow> windows;
    for (const PipelineOperation& operation : input_.operations) {
      const auto [place, is_new] =
          windows.try_emplace(operation.step, StepWindow{.step = operation.step, .start = operation.start, .end = operation.end});
      place->second.start = std::min(place->second.start, operation.start);
      place->second.end = std::max(place->second.end, operation.end);
    }
    for (const auto& [step, window] : windows) trace_.steps.push_back(window);
    settle_steps(trace_);
  }

  PipelineOperations input_;
  Trace trace_;
  TraceBuilder builder_;
  std::vector<PipelineItem> items_;
};

}  // namespace

Trace read_pipeline_timeline(TextInput& input) {
  return TimelineBuilder(read_pipeline_operations(input)).build();
}

Trace read_pipeline_timeline(const std::string& path) {
  TextInput input = open_text(path);
  return read_pipeline_timeline(input);
}

}  // namespace mptune::profiler
