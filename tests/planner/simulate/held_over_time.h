#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/plan/plan.h"
#include "planner/simulate/operations.h"
#include "profiler/base/index.h"

namespace mptune::planner {

/// What each device holds at every moment of the simulated step. Written from the rules of what lives how long: a slot from the start of
/// its copy, what is sent until its copy has ended.
class HeldOverTime {
 public:
  HeldOverTime(const Plan& plan, const CostModel& cost) : plan_(plan), cost_(cost), changes_(plan.devices.size()) {
    const Operations operations = list_operations(plan, cost);
    const Timing timing = time_operations(operations);
    for (std::size_t i = 0; i < operations.list.size(); ++i) {
      const Operation& operation = operations.list[i];
      if (operation.phase != Phase::actions) continue;
      const Span span{timing.start_ns[i], timing.start_ns[i] + timing.duration_ns[i]};
      if (operation.kind == EventKind::copy) {
        const bool output = operations.list[as_index(operation.input)].kind == EventKind::forward;
        (output ? outputs_ : gradients_)[{operation.flow, operation.microbatch}] = span;
      } else {
        works_[{operation.stage, operation.microbatch, operation.kind}] = span;
      }
    }
    for (int s = 0; s < plan.num_stages(); ++s) {
      for (int i = 0; i < plan.num_microbatches(); ++i) add(s, i);
      for (const int device : stage(s).devices) add_gradients(s, device);
    }
    for (std::size_t f = 0; f < operations.flows.size(); ++f)
      for (int i = 0; i < plan.num_microbatches(); ++i) add_flow(operations.flows[f], static_cast<int>(f), i);
  }

  /// Bytes, parameters included.
  [[nodiscard]] std::int64_t peak(std::size_t device) const {
    std::int64_t now = 0;
    std::int64_t most = 0;
    for (const auto& [time, change] : changes_[device]) most = std::max(most, now += change);
    for (const Stage& stage : plan_.stages) {
      if (std::ranges::count(stage.devices, static_cast<int>(device)) == 0) continue;
      // Further replicas in the host's memory read the first one's.
      if (stage.devices.front() != static_cast<int>(device) && cost_.in_host_memory(static_cast<int>(device))) continue;
      most += parameters(stage.first_layer, stage.last_layer);
    }
    return most;
  }

 private:
  struct Span {
    std::int64_t start = 0;
    std::int64_t end = 0;
  };

  [[nodiscard]] const Stage& stage(int s) const { return plan_.stages[as_index(s)]; }
  [[nodiscard]] bool did(int s, int i, EventKind kind) const { return works_.count({s, i, kind}) > 0; }
  [[nodiscard]] Span work(int s, int i, EventKind kind) const { return works_.at({s, i, kind}); }
  // Of a full backward or of the input gradients; then of what runs last.
  [[nodiscard]] Span gradient(int s, int i) const {
    return work(s, i, did(s, i, EventKind::backward) ? EventKind::backward : EventKind::backward_input);
  }
  [[nodiscard]] std::int64_t release(int s, int i) const {
    return did(s, i, EventKind::backward) ? gradient(s, i).end : work(s, i, EventKind::backward_weight).end;
  }

  void hold(int device, std::int64_t from, std::int64_t to, std::int64_t bytes) {
    if (to <= from) return;
    changes_[as_index(device)][from] += bytes;
    changes_[as_index(device)][to] -= bytes;
  }

  // Neighbouring layers that are kept, or computed again, together, as the runtime runs them.
  struct Segment {
    int first = 0;
    int last = 0;
    bool again = false;
    std::int64_t kept = 0;   // by its layers, once they have run for backward
    std::int64_t input = 0;  // that no segment before it holds: the stage's own is in its slot
    std::int64_t sent = 0;   // of what is kept, the stage's output, if it is gone once it is sent
  };

  std::vector<Segment> segments_of(int s, int i) const {
    const int samples = plan_.microbatch_sizes[as_index(i)];
    const Recompute& recompute = stage(s).recompute;
    std::vector<Segment> segments;
    for (int layer = stage(s).first_layer; layer < stage(s).last_layer; ++layer) {
      const bool listed = recompute.mode == Recompute::Mode::all || std::ranges::count(recompute.layers, layer) > 0;
      const bool again = listed && recomputes(recompute, i);
      if (segments.empty() || segments.back().again != again) {
        const bool held = segments.empty() || !segments.back().again;
        segments.push_back({layer, layer, again, 0, held ? 0 : cost_.boundary_bytes(layer, samples, false)});
      }
      segments.back().last = layer + 1;
      segments.back().kept += cost_.memory().saved_activation_bytes(device_of(stage(s), i), layer, layer + 1, samples);
    }
    if (!segments.back().again) segments.back().sent = dropped(device_of(stage(s), i), stage(s).last_layer - 1, samples);
    return segments;
  }

  static std::int64_t bytes_between(const std::vector<Segment>& segments) {
    std::int64_t bytes = 0;
    for (const Segment& segment : segments) bytes += segment.input + (segment.again ? 0 : segment.kept - segment.sent);
    return bytes;
  }

  // Without a graph a layer needs what it makes and its input.
  std::int64_t bytes_in_forward(int device, const std::vector<Segment>& segments, int samples) const {
    std::int64_t now = 0;
    std::int64_t most = 0;
    for (const Segment& segment : segments) {
      now += segment.input;
      for (int layer = segment.first; layer < segment.last; ++layer) {
        const std::int64_t input = layer > segment.first ? cost_.boundary_bytes(layer, samples, false) : 0;
        const std::int64_t held = segment.again ? input + cost_.memory().bare_forward_bytes(device, layer, samples)
                                                : cost_.memory().saved_activation_bytes(device, segment.first, layer + 1, samples) +
                                                      cost_.memory().workspace_bytes(device, layer, layer + 1, samples);
        most = std::max(most, now + held);
      }
      now += segment.again ? 0 : segment.kept;
    }
    return most;
  }

  // What a layer's forward made and its backward does not read, if somebody behind it had it.
  std::int64_t dropped(int device, int layer, int samples) const {
    return layer + 1 == cost_.layers() || cost_.memory().keeps_output(device, layer) ? 0 : cost_.tensors().made_bytes(layer, samples);
  }

  // From the last segment to the first: each is run again when it comes to it. Layer by layer what was kept goes and, the first time, the
  // gradients of the parameters come.
  std::int64_t bytes_in_backward(int s, int i, const std::vector<Segment>& segments) const {
    const int device = device_of(stage(s), i);
    const int samples = plan_.microbatch_sizes[as_index(i)];
    std::int64_t now = bytes_between(segments) + segments.back().sent;
    std::int64_t most = now;
    std::vector<int> ran;
    for (std::size_t k = segments.size(); k-- > 0;) {
      if (segments[k].again) now += segments[k].kept;
      for (int layer = segments[k].last; layer-- > segments[k].first;) {
        now -= dropped(device, layer, samples);
        const std::int64_t gradient = layer + 1 < stage(s).last_layer ? cost_.boundary_bytes(layer + 1, samples, true) : 0;
        const bool first = is_first_backward(s, i);
        most = std::max(most, now + gradient +
                                  (first ? cost_.memory().first_backward_bytes(device, layer, samples)
                                         : cost_.memory().workspace_bytes(device, layer, layer + 1, samples)));
        now += first ? own(layer) - shared_with(layer, ran) : 0;
        ran.push_back(layer);
        now -= cost_.memory().saved_activation_bytes(device, layer, layer + 1, samples) - dropped(device, layer, samples);
      }
      now -= segments[k].input;
    }
    return most;
  }

  // Of what a layer holds between its gradients, what counts in this stage: its input unless it is the stage's, likewise the gradients of
  // its output.
  std::int64_t held_by(int s, int i, int layer) const {
    const SplitMemory memory = split(s, i, layer);
    return memory.held_bytes - (layer == stage(s).first_layer ? memory.held_input_bytes : 0) -
           (layer + 1 == stage(s).last_layer ? memory.held_gradient_bytes : 0);
  }
  SplitMemory split(int s, int i, int layer) const {
    return cost_.memory().split_memory(device_of(stage(s), i), layer, plan_.microbatch_sizes[as_index(i)]);
  }

  // Like a whole backward, but what the layers hold stays, and few gradients of parameters come.
  std::int64_t bytes_in_input_gradients(int s, int i, const std::vector<Segment>& segments) const {
    const int device = device_of(stage(s), i);
    const int samples = plan_.microbatch_sizes[as_index(i)];
    std::int64_t now = bytes_between(segments) + segments.back().sent;
    std::int64_t most = now;
    std::vector<int> ran;
    std::int64_t read_behind = 0;  // the input of the layer behind, if that holds it
    for (std::size_t k = segments.size(); k-- > 0;) {
      if (segments[k].again) now += segments[k].kept;
      for (int layer = segments[k].last; layer-- > segments[k].first;) {
        const std::int64_t dropped = this->dropped(device, layer, samples);
        now += dropped > 0 ? read_behind - dropped : 0;
        if (is_first_input_gradient(s, i)) now += std::max<std::int64_t>(0, unsplit(layer) - shared_with(layer, ran));
        ran.push_back(layer);
        const std::int64_t gradient = layer + 1 < stage(s).last_layer ? cost_.boundary_bytes(layer + 1, samples, true) : 0;
        most = std::max(most, now + gradient + split(s, i, layer).input_workspace_bytes);
        now -= cost_.memory().saved_activation_bytes(device, layer, layer + 1, samples) - dropped;
        const std::int64_t read = layer == stage(s).first_layer ? 0 : split(s, i, layer).held_input_bytes;
        now += held_by(s, i, layer) - read + (dropped > 0 ? 0 : read_behind);
        read_behind = read;
      }
      now -= segments[k].input;
    }
    return most;
  }

  // The runtime computes them in an order of its own: from the front, from the back, or those first that leave most behind.
  std::int64_t bytes_in_weight_gradients(int s, int i) const {
    std::vector<int> order;
    for (int layer = stage(s).first_layer; layer < stage(s).last_layer; ++layer) order.push_back(layer);
    std::int64_t most = bytes_in_weight_gradients(s, i, order);
    std::ranges::reverse(order);
    most = std::max(most, bytes_in_weight_gradients(s, i, order));
    std::ranges::sort(order, std::greater{}, [&](int layer) { return own(layer) - held_by(s, i, layer); });
    return std::max(most, bytes_in_weight_gradients(s, i, order));
  }
  std::int64_t bytes_in_weight_gradients(int s, int i, const std::vector<int>& order) const {
    std::int64_t now = 0;
    for (const int layer : order) now += held_by(s, i, layer);
    std::int64_t most = now;
    std::vector<int> ran;
    for (const int layer : order) {
      if (is_first_release(s, i)) now += std::max<std::int64_t>(0, own(layer) - unsplit(layer) - shared_with(layer, ran));
      ran.push_back(layer);
      most = std::max(most, now + split(s, i, layer).weight_workspace_bytes);
      now -= held_by(s, i, layer);
    }
    return most;
  }

  std::int64_t own(int layer) const { return cost_.profile().layers[as_index(layer)].parameters_bytes; }
  // Bytes of the layer's parameters that layers of its stage have as well which ran before. Requires: no parameter of three layers.
  std::int64_t shared_with(int layer, const std::vector<int>& ran) const {
    std::int64_t bytes = 0;
    for (const TiedParameters& tied : cost_.profile().tied_parameters) {
      const int other = tied.layer == layer ? tied.earlier_layer : tied.layer;
      const bool has = tied.layer == layer || tied.earlier_layer == layer;
      if (has && std::ranges::count(ran, other) > 0) bytes += tied.bytes;
    }
    return bytes;
  }
  std::int64_t parameters(int first, int last) const {
    std::int64_t bytes = 0;
    std::vector<int> before;
    for (int layer = first; layer < last; ++layer) {
      bytes += own(layer) - shared_with(layer, before);
      before.push_back(layer);
    }
    return bytes;
  }
  std::int64_t unsplit(int layer) const { return cost_.profile().layers[as_index(layer)].unsplit_bytes; }

  bool is_first_input_gradient(int s, int i) const {
    for (int other = 0; other < plan_.num_microbatches(); ++other)
      if (device_of(stage(s), other) == device_of(stage(s), i) && gradient(s, other).end < gradient(s, i).end) return false;
    return true;
  }
  bool is_first_release(int s, int i) const {
    for (int other = 0; other < plan_.num_microbatches(); ++other)
      if (device_of(stage(s), other) == device_of(stage(s), i) && release(s, other) < release(s, i)) return false;
    return true;
  }

  bool is_first_backward(int s, int i) const {
    for (int other = 0; other < plan_.num_microbatches(); ++other)
      if (device_of(stage(s), other) == device_of(stage(s), i) && gradient(s, other).end < gradient(s, i).end) return false;
    return true;
  }

  // From the end of the first full backward, or the start of the first weight gradients, to the end of the step.
  void add_gradients(int s, int device) {
    std::int64_t from = kEnd;
    for (int i = 0; i < plan_.num_microbatches(); ++i) {
      if (device_of(stage(s), i) != device) continue;
      const bool measured = cost_.memory().split_memory_measured(device);
      from = std::min(from, did(s, i, EventKind::backward) || measured ? release(s, i) : work(s, i, EventKind::backward_weight).start);
    }
    hold(device, from, kEnd, parameters(stage(s).first_layer, stage(s).last_layer));
  }

  void add(int s, int i) {
    const int device = device_of(stage(s), i);
    const int samples = plan_.microbatch_sizes[as_index(i)];
    const std::vector<Segment> segments = segments_of(s, i);
    const std::int64_t workspace = cost_.memory().workspace_bytes(device, stage(s).first_layer, stage(s).last_layer, samples);
    const Span forward = work(s, i, EventKind::forward);
    const bool again = did(s, i, EventKind::recompute);
    const std::int64_t back = again ? work(s, i, EventKind::recompute).start : gradient(s, i).start;
    const std::int64_t between = bytes_between(segments);
    hold(device, forward.start, release(s, i), between);
    hold(device, forward.start, forward.end, bytes_in_forward(device, segments, samples) - between);
    if (did(s, i, EventKind::backward)) {
      hold(device, back, release(s, i), bytes_in_backward(s, i, segments) - between);
    } else if (cost_.memory().split_memory_measured(device)) {
      const std::int64_t held = cost_.memory().held_bytes(device, stage(s).first_layer, stage(s).last_layer, samples);
      hold(device, back, gradient(s, i).end, bytes_in_input_gradients(s, i, segments) - between);
      hold(device, gradient(s, i).end, release(s, i), held - between);
      hold(device, work(s, i, EventKind::backward_weight).start, release(s, i), bytes_in_weight_gradients(s, i) - held);
    } else {
      hold(device, back, gradient(s, i).end, workspace);
      std::int64_t kept = 0;
      for (const Segment& segment : segments) kept += segment.kept;
      hold(device, back, release(s, i), kept - between);
      hold(device, gradient(s, i).start, release(s, i),
           cost_.memory().held_bytes(device, stage(s).first_layer, stage(s).last_layer, samples) - kept);
      hold(device, work(s, i, EventKind::backward_weight).start, release(s, i), workspace);
    }
  }

  void add_flow(const StageFlow& flow, int f, int i) {
    const int s = flow.back, front = flow.front, samples = plan_.microbatch_sizes[as_index(i)];
    const int device = device_of(stage(s), i);
    const int before = device_of(stage(front), i);
    const std::int64_t output = flow.bytes(samples, false);
    const std::int64_t gradients = flow.bytes(samples, true);
    const Segment last = segments_of(front, i).back();
    const bool drops = last.again || last.sent > 0;
    if (device == before) {
      const bool in_two = !did(front, i, EventKind::backward) && cost_.memory().split_memory_measured(device);
      const std::int64_t kept_until = in_two ? gradient(front, i).end : release(front, i);
      hold_until_read(s, i, device, drops ? work(front, i, EventKind::forward).end : kept_until, output, split_input(s, i));
      hold_until_read(front, i, device, gradient(s, i).end, gradients, split_gradient(front, i));
      return;
    }
    const Span sent = outputs_.at({f, i});
    hold_until_read(s, i, device, sent.start, output, split_input(s, i));
    if (drops) hold(before, work(front, i, EventKind::forward).end, sent.end, output);
    if (!flow.needs_gradient) return;
    const Span back = gradients_.at({f, i});
    hold_until_read(front, i, before, back.start, gradients, split_gradient(front, i));
    hold(device, gradient(s, i).end, back.end, gradients);
  }

  // All of it until the stage's gradients of inputs have ended, then what its weight gradients read; all of it where that was not measured.
  void hold_until_read(int s, int i, int device, std::int64_t from, std::int64_t all, std::int64_t read) {
    const bool measured = cost_.memory().split_memory_measured(device);
    const std::int64_t until = measured ? gradient(s, i).end : release(s, i);
    hold(device, from, until, all);
    hold(device, std::max(from, until), release(s, i), std::min(all, read));
  }
  std::int64_t split_input(int s, int i) const {
    return cost_.memory().split_memory_measured(device_of(stage(s), i)) ? split(s, i, stage(s).first_layer).held_input_bytes : 0;
  }
  std::int64_t split_gradient(int s, int i) const {
    return cost_.memory().split_memory_measured(device_of(stage(s), i)) ? split(s, i, stage(s).last_layer - 1).held_gradient_bytes : 0;
  }

  static constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

  const Plan& plan_;
  const CostModel& cost_;
  std::vector<std::map<std::int64_t, std::int64_t>> changes_;  // per device, by time
  std::map<std::pair<int, int>, Span> outputs_, gradients_;    // copies, by flow and micro-batch
  std::map<std::tuple<int, int, EventKind>, Span> works_;
};

}  // namespace mptune::planner
