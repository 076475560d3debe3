#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "planner/cost/cost_model.h"
#include "planner/plan/plan.h"
#include "profiler/base/index.h"

namespace mptune::testing {

/// Slow truth, written from the rules and sharing no code: every device, lane and wait by itself, until nothing changes.
class Oracle {
 public:
  Oracle(const Plan& plan, const CostModel& cost) : plan_(plan), cost_(cost) {}

  double step() {
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t d = 0; d < plan_.actions.size(); ++d) changed |= run_row(static_cast<int>(d));
    }
    const double end = end_;
    std::map<int, double> reduced, updated;
    std::map<const Stage*, double> summed;
    for (const Stage& stage : plan_.stages) {
      const auto r = static_cast<double>(stage.devices.size());
      if (r < 2) continue;
      const auto bytes = static_cast<double>(cost_.parameters_bytes(stage.first_layer, stage.last_layer));
      const auto class_of = [&](int d) -> const DeviceClass& {
        return cost_.profile().classes[as_index(cost_.profile().devices[as_index(d)].device_class)];
      };
      // A GPU that holds the sums works alone, others share the work.
      const auto is_gpu = [&](int d) { return class_of(d).name.substr(0, 4) == "cuda"; };
      const bool alone = is_gpu(stage.devices[0]);
      double gradients = 0, parameters = 0;
      for (const int d : stage.devices) {
        if (d == stage.devices[0] || (!alone && !is_gpu(d))) continue;
        for (const LinkCost& link : cost_.profile().links) {
          if (link.source == d && link.destination == stage.devices[0]) gradients += bytes / link.bytes_per_second;
          if (link.source == stage.devices[0] && link.destination == d) parameters = std::max(parameters, bytes / link.bytes_per_second);
        }
      }
      for (const int d : stage.devices) {
        if (alone && d != stage.devices[0]) continue;
        reduced[d] += gradients + parameters + class_of(d).reduce_seconds_per_byte * bytes * (r - 1) / (alone ? 1 : r);
        summed[&stage] = std::max(summed[&stage], reduced[d]);
      }
    }
    double last = end;
    for (const Stage& stage : plan_.stages) {
      double start = end + std::max(reduced[stage.devices[0]], updated[stage.devices[0]]);
      start = std::max(start, end + summed[&stage]);
      double finish = start;
      for (int layer = stage.first_layer; layer < stage.last_layer; ++layer) finish += cost_.optimizer_seconds(stage.devices[0], layer);
      updated[stage.devices[0]] = finish - end;
      last = std::max({last, finish});
    }
    for (const auto& [d, time] : reduced) last = std::max(last, end + time);
    return last + cost_.step_seconds(0);
  }

 private:
  double arrived(bool forward, int stage, int i) {
    const auto found = arrived_.find({forward, stage, i});
    return found == arrived_.end() ? -1 : found->second;
  }

  [[nodiscard]] double work(ActionKind kind, int d, int layer, int samples) const {
    const LayerTimes times = cost_.layer(d, layer, samples);
    if (kind == ActionKind::forward) return times.forward_s;
    if (kind == ActionKind::backward) return times.backward_s;
    return kind == ActionKind::backward_input ? times.backward_input_s : times.backward_weight_s;
  }

  // Requires: a layer fuses the same share at all sizes.
  [[nodiscard]] double fused_work(int d, int layer, const Action& action) const {
    const DeviceClass& device_class = cost_.profile().classes[as_index(cost_.profile().devices[as_index(d)].device_class)];
    const std::optional<SplitMemory>& split = device_class.layers[as_index(layer)].by_samples[0].split;
    double singles = 0;
    int together = 0;
    for (int i = action.microbatch; i <= action.last_microbatch(); ++i) {
      singles += work(action.kind, d, layer, plan_.microbatch_sizes[as_index(i)]);
      together += plan_.microbatch_sizes[as_index(i)];
    }
    const double share = split ? split->fused_share : 0;
    return (1 - share) * singles + share * work(action.kind, d, layer, together);
  }

  bool run_row(int d) {
    bool changed = false;
    auto& row = plan_.actions[as_index(d)];
    for (std::size_t& k = next_[d]; k < row.size(); ++k) {
      const Action action = row[k];
      const Stage& stage = plan_.stages[as_index(action.stage)];
      const bool forward = action.kind == ActionKind::forward;
      const bool weight = action.kind == ActionKind::backward_weight;
      const bool waits = forward ? action.stage > 0 : !weight && action.stage + 1 < plan_.num_stages();
      const double input = waits ? arrived(forward, action.stage, action.microbatch) : 0;
      if (input < 0) return changed;
      double t = free_[d];
      const int samples = plan_.microbatch_sizes[as_index(action.microbatch)];
      const auto again = [&](int l) {
        const bool listed = stage.recompute.mode == Recompute::Mode::all || std::ranges::count(stage.recompute.layers, l) > 0;
        return !forward && !weight && recomputes(stage.recompute, action.microbatch) && listed;
      };
      // What is recomputed at the end of the stage needs no gradient.
      int rerun = stage.last_layer;
      for (; rerun > stage.first_layer && again(rerun - 1); --rerun) t += cost_.layer(d, rerun - 1, samples).forward_s;
      t = std::max(t, input);
      t += cost_.action_seconds(d);
      for (int l = stage.last_layer - 1; l >= stage.first_layer; --l) {
        if (again(l) && l < rerun) t += cost_.layer(d, l, samples).forward_s;
        t += action.further > 0 ? fused_work(d, l, action) : work(action.kind, d, l, samples);
      }
      free_[d] = t;
      end_ = std::max(end_, t);
      if (!weight) send(forward, action.stage, action.microbatch, d, t);
      changed = true;
    }
    return changed;
  }

  void send(bool forward, int stage, int i, int from, double t) {
    const int next = forward ? stage + 1 : stage - 1;
    if (next < 0 || next >= plan_.num_stages()) return;
    const int to = device_of(plan_.stages[as_index(next)], i);
    if (to != from) {
      const int cut = plan_.stages[as_index(std::max(stage, next))].first_layer;
      const std::int64_t bytes = cost_.boundary_bytes(cut, plan_.microbatch_sizes[as_index(i)], !forward);
      double& free = cost_.copies().sender_copies(from, to) ? free_[from] : lane_[{from, to}];
      free = t = std::max(t, free) + cost_.copy_seconds(from, to, bytes);
    }
    arrived_[{forward, next, i}] = t;
  }

  const Plan& plan_;
  const CostModel& cost_;
  std::map<int, std::size_t> next_;
  std::map<int, double> free_;
  std::map<std::pair<int, int>, double> lane_;
  std::map<std::tuple<bool, int, int>, double> arrived_;
  double end_ = 0;
};

}  // namespace mptune::testing
