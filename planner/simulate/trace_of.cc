#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "planner/cost/peak_bytes.h"
#include "planner/schedule/schedule.h"
#include "planner/simulate/operations.h"
#include "profiler/base/index.h"
#include "profiler/trace/analyze/replay.h"
#include "profiler/trace/values/trace_builder.h"

namespace mptune::planner {
namespace {

ActionKind kind_of(EventKind kind) {
  if (kind == EventKind::backward_input) return ActionKind::backward_input;
  if (kind == EventKind::backward_weight) return ActionKind::backward_weight;
  return kind == EventKind::forward ? ActionKind::forward : ActionKind::backward;
}

// A layer's part of an operation.
struct LayerWork {
  EventKind kind = EventKind::forward;
  int layer = 0;
};

// First and last event of an operation.
struct Span {
  int first = -1;
  int last = -1;
};

class SimulatedTrace {
 public:
  SimulatedTrace(const Plan& plan, const CostModel& cost, const Operations& operations, const Timing& timing)
      : plan_(plan),
        cost_(cost),
        operations_(operations),
        timing_(timing),
        devices_(cost.device_indices(plan.devices)),
        lane_last_(as_index(operations.lanes), -1) {
    for (const int device : devices_) {
      const ProfileDevice& known = cost.profile().devices[as_index(device)];
      trace_.devices.push_back({known.name, "simulated device", 0, known.memory_bytes});
    }
  }

  Trace build() {
    for (std::size_t i = 0; i < operations_.list.size(); ++i) add_operation(i);
    trace_ = profiler::replay(trace_, durations_);
    add_ranges();
    trace_.steps.push_back({0, Nanoseconds{0}, step_end()});
    profiler::order_events(trace_);
    profiler::order_ranges(trace_);
    return std::move(trace_);
  }

 private:
  [[nodiscard]] Nanoseconds step_end() const { return Nanoseconds{timing_.end_ns + operations_.step_ns}; }
  [[nodiscard]] const Stage& stage_of(const Operation& operation) const { return plan_.stages[as_index(operation.stage)]; }

  int tag(const Operation& operation, int layer) {
    const auto& devices = stage_of(operation).devices;
    const int replica = operation.microbatch >= 0
                            ? replica_of(stage_of(operation), operation.microbatch)
                            : static_cast<int>(std::find(devices.begin(), devices.end(), operation.device) - devices.begin());
    return builder_.tag({0, operation.stage, operation.microbatch, layer, replica});
  }

  int add_event(const Operation& operation, EventKind kind, const std::string& text, int layer, std::int64_t ns) {
    Event event;
    event.name = builder_.name(text);
    event.tag = tag(operation, layer);
    event.device = static_cast<std::int16_t>(operation.device);
    event.kind = kind;
    if (kind == EventKind::copy) {
      event.lane = static_cast<std::uint8_t>(copy_lane(destination_of(operation)));
      event.detail = static_cast<int>(trace_.copies.size());
      trace_.copies.push_back(copy_of(operation));
    }
    trace_.events.push_back(event);
    durations_.push_back(Nanoseconds{ns});
    const int index = static_cast<int>(trace_.events.size()) - 1;
    int& before = lane_last_[as_index(operation.lane)];
    if (before >= 0) trace_.edges.push_back({before, index, EdgeKind::order});
    before = index;
    return index;
  }

  // Copies to the host, and back, are on two lanes after those of the devices.
  [[nodiscard]] int destination_of(const Operation& copy) const {
    if (copy.host == HostCopy::none) return copy.destination;
    return operations_.devices + (copy.host == HostCopy::to_host ? 0 : 1);
  }

  // The host is no device, so its index is -1, as in recordings of GPUs.
  [[nodiscard]] Copy copy_of(const Operation& copy) const {
    if (copy.host == HostCopy::to_host) return {copy.bytes, copy.device, -1};
    if (copy.host == HostCopy::from_host) return {copy.bytes, -1, copy.device};
    const bool gradient = copy.stage != operations_.flows[as_index(copy.flow)].front;
    return {copy.bytes, copy.device, copy.destination, gradient};
  }

  [[nodiscard]] static const char* name_of_copy(const Operation& copy) {
    if (copy.host == HostCopy::none) return "copy";
    return copy.host == HostCopy::to_host ? "copy device to host" : "copy host to device";
  }

  void add_operation(std::size_t i) {
    const Operation& operation = operations_.list[i];
    const int first = static_cast<int>(trace_.events.size());
    if (operation.kind == EventKind::copy) {
      add_event(operation, EventKind::copy, name_of_copy(operation), -1, timing_.duration_ns[i]);
    } else if (operation.phase != Phase::actions) {
      add_event(operation, operation.kind, to_string(operation.kind), -1, timing_.duration_ns[i]);
    } else {
      if (operation.overhead_ns > 0) add_event(operation, EventKind::host, "hand-over", -1, operation.overhead_ns);
      add_layers(operation, timing_.duration_ns[i]);
    }
    spans_.push_back({first, static_cast<int>(trace_.events.size()) - 1});
    add_waits(operation, first);
  }

  void add_waits(const Operation& operation, int first) {
    if (operation.phase == Phase::actions) {
      if (operation.input >= 0) trace_.edges.push_back({spans_[as_index(operation.input)].last, first, EdgeKind::data});
      for (; wait_ < operations_.waits.size() && as_index(operations_.waits[wait_].operation) + 1 == spans_.size(); ++wait_) {
        const auto until = as_index(operations_.waits[wait_].until);
        trace_.edges.push_back({spans_[until].last, first, kind_of_wait(operation, operations_.list[until])});
      }
      return;
    }
    for (std::size_t j = 0; j + 1 < spans_.size(); ++j) {
      const Operation& before = operations_.list[j];
      const bool reduced = before.phase == Phase::reduce && operation.phase == Phase::optimizer && before.stage == operation.stage;
      if (before.phase == Phase::actions || reduced) trace_.edges.push_back({spans_[j].last, first, EdgeKind::event_wait});
    }
  }

  [[nodiscard]] static EdgeKind kind_of_wait(const Operation& operation, const Operation& until) {
    const bool weights = operation.kind == EventKind::backward_weight || until.kind == EventKind::backward_weight;
    const bool memory = operation.host != HostCopy::none || until.host == HostCopy::to_host;
    return weights || memory ? EdgeKind::event_wait : EdgeKind::data;
  }

  // Returns the layers in the order in which a device runs them.
  [[nodiscard]] std::vector<LayerWork> layers_of(const Operation& operation) const {
    const Stage& stage = stage_of(operation);
    std::vector<LayerWork> layers;
    if (operation.layer >= 0)
      layers.push_back({operation.kind, operation.layer});
    else if (operation.kind == EventKind::forward)
      append(operation.kind, stage.first_layer, stage.last_layer, layers);
    else if (operation.kind == EventKind::recompute)
      append(operation.kind, first_recomputed_early(stage), stage.last_layer, layers);
    else
      append_backward(operation, stage, layers);
    return layers;
  }

  static void append(EventKind kind, int first, int last, std::vector<LayerWork>& layers) {
    for (int layer = first; layer < last; ++layer) layers.push_back({kind, layer});
  }

  // Appends piece by piece from the last. A recomputed piece, unless it was recomputed early, runs its forward before its backward.
  static void append_backward(const Operation& operation, const Stage& stage, std::vector<LayerWork>& layers) {
    const bool again = operation.kind != EventKind::backward_weight && recomputes(stage.recompute, operation.microbatch);
    for (int last = stage.last_layer; last > stage.first_layer;) {
      const bool recomputed = recomputes_layer(stage.recompute, last - 1);
      int first = last - 1;
      while (first > stage.first_layer && recomputes_layer(stage.recompute, first - 1) == recomputed) --first;
      if (again && recomputed && last < stage.last_layer) append(EventKind::recompute, first, last, layers);
      while (last > first) layers.push_back({operation.kind, --last});
    }
  }

  // Splits the operation's time over its layers in proportion to their prices, to the nanosecond.
  void add_layers(const Operation& operation, std::int64_t duration_ns) {
    const std::int64_t work = duration_ns - operation.overhead_ns;
    const std::int64_t slowed = duration_ns - operation.alone_ns;
    const double share = operation.extra_ns > 0 ? static_cast<double>(slowed) / static_cast<double>(operation.extra_ns) : 0;
    const std::vector<LayerWork> layers = layers_of(operation);
    std::vector<double> upto;
    double sum = 0;
    for (const LayerWork& part : layers) upto.push_back(sum += price(operation, part, share));
    std::int64_t placed = 0;
    for (std::size_t k = 0; k < layers.size(); ++k) {
      const auto [kind, layer] = layers[k];
      const bool last = k + 1 == layers.size();
      const std::int64_t end = last || sum <= 0 ? work : std::llround(static_cast<double>(work) * upto[k] / sum);
      add_event(operation, kind, cost_.profile().layers[as_index(layer)].name, layer, end - placed);
      placed = end;
    }
  }

  [[nodiscard]] double price(const Operation& operation, const LayerWork& part, double share) const {
    const int samples = plan_.microbatch_sizes[as_index(operation.microbatch)];
    const LayerTimes times = cost_.layer(devices_[as_index(operation.device)], part.layer, samples);
    const double slower = times.backward_s > 0 ? share * (times.backward_busy_s / times.backward_s - 1) : 0;
    if (part.kind == EventKind::backward) return times.backward_s * (1 + slower);
    if (part.kind == EventKind::backward_input) return times.backward_input_s * (1 + slower);
    if (part.kind == EventKind::backward_weight) {
      const auto sizes = std::span(plan_.microbatch_sizes).subspan(as_index(operation.microbatch), as_index(operation.further) + 1);
      return cost_.fused_weight_seconds(devices_[as_index(operation.device)], part.layer, sizes) * (1 + slower);
    }
    return times.forward_s + share * (times.forward_busy_s - times.forward_s);
  }

  void add_ranges() {
    std::vector<int> again(plan_.devices.size(), -1);   // the recomputation that the device's next action begins with
    std::vector<int> helped(plan_.devices.size(), -1);  // the layer's weight gradients that the device computed last
    begin_memory();
    for (std::size_t i = 0; i < operations_.list.size(); ++i) {
      const Operation& operation = operations_.list[i];
      if (operation.phase != Phase::actions || operation.kind == EventKind::copy) continue;
      int& recomputation = again[as_index(operation.device)];
      if (operation.kind == EventKind::recompute) {
        recomputation = static_cast<int>(i);
        continue;
      }
      const std::size_t begin = recomputation < 0 ? i : as_index(std::exchange(recomputation, -1));
      const Event& first = trace_.events[as_index(spans_[begin].first)];
      const Event& last = trace_.events[as_index(spans_[i].last)];
      const int before = std::exchange(helped[as_index(operation.device)], operation.layer >= 0 ? static_cast<int>(i) : -1);
      if (before >= 0 && same_action(operations_.list[as_index(before)], operation)) {
        Event& range = trace_.ranges[as_index(range_of_[as_index(operation.device)])];
        range.duration = last.end() - range.start;
        continue;
      }
      range_of_[as_index(operation.device)] = static_cast<int>(trace_.ranges.size());
      add_range(EventKind::action, to_text(Action{operation.stage, kind_of(operation.kind), operation.microbatch, operation.further}),
                operation.device, tag(operation, -1), first.start, last.end());
      if (operation.layer < 0) add_action_memory(operation.device, first.start, last.end());
    }
    for (int device = 0; device < operations_.devices; ++device) add_weights_memory(device);
    std::stable_sort(trace_.memory.begin(), trace_.memory.end(),
                     [](const MemorySample& a, const MemorySample& b) { return a.time < b.time; });
    for (int device = 0; device < operations_.devices; ++device)
      add_range(EventKind::step, "step 0", device, builder_.tag({.step = 0}), Nanoseconds{0}, step_end());
  }

  [[nodiscard]] static bool same_action(const Operation& a, const Operation& b) {
    return b.layer >= 0 && a.stage == b.stage && a.microbatch == b.microbatch;
  }

  void begin_memory() {
    levels_ = memory_levels(plan_, cost_);
    action_.assign(levels_.size(), 0);
    ended_.assign(levels_.size(), Nanoseconds{0});
    range_of_.assign(levels_.size(), -1);
    for (std::size_t d = 0; d < levels_.size(); ++d) add_memory(static_cast<int>(d), Nanoseconds{0}, levels_[d].before_bytes);
    for (std::size_t i = 0; i < operations_.list.size(); ++i) {
      const Operation& operation = operations_.list[i];
      if (operation.layer < 0) continue;
      Nanoseconds& end = weights_[{operation.stage, operation.microbatch}];
      end = std::max(end, trace_.events[as_index(spans_[i].last)].end());
    }
  }

  // Adds the memory of the device's next action, unless that is a weight action that idle devices help with.
  void add_action_memory(int device, Nanoseconds start, Nanoseconds end) {
    add_weights_memory(device);
    add_next_memory(device, start, end);
  }

  // Weight actions that idle devices help with count as done when the last of their layers and all actions before them in the row have
  // ended.
  void add_weights_memory(int device) {
    const std::vector<Action>& row = plan_.actions[as_index(device)];
    for (std::size_t& q = action_[as_index(device)]; q < row.size() && row[q].kind == ActionKind::backward_weight;) {
      const auto found = weights_.find({row[q].stage, row[q].microbatch});
      if (found == weights_.end()) return;
      const Nanoseconds end = std::max(found->second, ended_[as_index(device)]);
      add_next_memory(device, end, end);
    }
  }

  void add_next_memory(int device, Nanoseconds start, Nanoseconds end) {
    const MemoryLevels& level = levels_[as_index(device)];
    const std::size_t q = action_[as_index(device)]++;
    add_memory(device, start, level.during_bytes.at(q));
    add_memory(device, end, level.after_bytes.at(q));
    ended_[as_index(device)] = end;
  }

  void add_memory(int device, Nanoseconds time, std::int64_t bytes) { trace_.memory.push_back({time, device, bytes}); }

  void add_range(EventKind kind, const std::string& text, int device, int tag_id, Nanoseconds start, Nanoseconds end) {
    Event range;
    range.kind = kind;
    range.name = builder_.name(text);
    range.device = static_cast<std::int16_t>(device);
    range.tag = tag_id;
    range.start = start;
    range.duration = end - start;
    trace_.ranges.push_back(range);
  }

  const Plan& plan_;
  const CostModel& cost_;
  const Operations& operations_;
  const Timing& timing_;
  std::vector<int> devices_;  // indices in the profile
  std::vector<int> lane_last_;
  std::vector<Span> spans_;
  std::size_t wait_ = 0;                                // the next of the operations' waits
  std::map<std::pair<int, int>, Nanoseconds> weights_;  // by stage and micro-batch: when the last of its layers has ended
  std::vector<MemoryLevels> levels_;                    // per device
  std::vector<std::size_t> action_;                     // per device: index in its row of the next action whose memory is to be added
  std::vector<int> range_of_;                           // per device: index of its last range
  std::vector<Nanoseconds> ended_;                      // per device: end of the action before the next one
  std::vector<Nanoseconds> durations_;
  Trace trace_;
  profiler::TraceBuilder builder_{trace_};
};

}  // namespace

Trace trace_of(const Plan& plan, const CostModel& cost, const Operations& operations, const Timing& timing) {
  return SimulatedTrace(plan, cost, operations, timing).build();
}

}  // namespace mptune::planner
