#include "planner/schedule/named.h"

#include <algorithm>
#include <utility>

#include "planner/schedule/fill.h"
#include "planner/schedule/greedy.h"
#include "planner/schedule/patterns.h"
#include "planner/schedule/timing.h"
#include "planner/schedule/warm_ups.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

// Ordering all actions by (stage, micro-batch) forward and (last stage first, micro-batch) backward respects every dependency, so rows
// that are parts of that order cannot block each other. With several stages on a device this is looped breadth-first.
//
//     dev 0  F0 F1 F2          B0 B1 B2
//     dev 1     F0 F1 F2 B0 B1 B2
Rows all_forward_then_all_backward(const Layout& layout) {
  Rows rows;
  for (int d = 0; d < layout.devices(); ++d) {
    std::vector<Action>& row = rows.emplace_back();
    std::vector<int> units = layout.on(d);
    for (const ActionKind kind : {ActionKind::forward, ActionKind::backward}) {
      for (const int u : units) {
        const Unit& unit = layout.units()[as_index(u)];
        for (int k = 0; k < unit.count; ++k) row.push_back({unit.stage, kind, unit.microbatch(k)});
      }
      std::reverse(units.begin(), units.end());
    }
  }
  return rows;
}

constexpr std::int64_t kShare = 1000;  // what a micro-batch weighs on a stage, whatever its bytes

// Keeps the times. Every micro-batch of every stage weighs the same; between its gradients it keeps its share of that weight, at most all.
ScheduleCosts counted(ScheduleCosts costs) {
  for (StageCosts& stage : costs.stages) {
    stage.held_bytes = stage.saved_activation_bytes > stage.held_bytes ? kShare * stage.held_bytes / stage.saved_activation_bytes : kShare;
    stage.saved_activation_bytes = kShare;
  }
  return costs;
}

// Keeps the best of several rows: the one with the shortest span, and among these the one with the shortest step.
class BestSpan {
 public:
  BestSpan(const Layout& layout, const ScheduleCosts& costs) : layout_(layout), costs_(costs), replay_(layout, costs) {}

  void consider(Rows rows) {
    if (rows.empty()) return;
    replay_.run(rows);
    take_better({std::move(rows), {}, replay_.timing().end_ns, replay_.timing().span_ns});
  }

  // Considers the order with weight gradients where each of several policies puts them. Devices that idled less than the idlest may idle
  // more; how much more is learnt from the round before.
  void consider_filled(const Rows& order, std::int64_t limit) {
    FillPolicy policy;
    policy.limit.assign(order.size(), limit);
    for (const auto& [forward, backward] : {std::pair(0, 0), {50, 50}, {100, 100}, {100, 0}, {0, 100}}) {
      policy.forward_patience_percent = forward;
      policy.backward_patience_percent = backward;
      policy.idle_as_others = false;
      take_better(fill_weights(layout_, costs_, order, policy));
      policy.idle_as_others = true;
      policy.idle_ns.assign(order.size(), 0);
      for (int round = 0; round < 3; ++round) {
        Filled filled = fill_weights(layout_, costs_, order, policy);
        std::vector<std::int64_t> granted = filled.idle_ns;
        const std::int64_t most = std::ranges::max(granted);
        for (std::int64_t& idle : granted) idle = most - idle;
        take_better(std::move(filled));
        if (granted == policy.idle_ns) break;
        policy.idle_ns = std::move(granted);
      }
    }
  }

  [[nodiscard]] Rows take() { return std::move(best_.rows); }

 private:
  void take_better(Filled filled) {
    if (!best_.rows.empty() && std::pair(filled.span_ns, filled.end_ns) >= std::pair(best_.span_ns, best_.end_ns)) return;
    best_ = std::move(filled);
  }

  const Layout& layout_;
  const ScheduleCosts& costs_;
  ScheduleReplay replay_;
  Filled best_;
};

// ZB1P and ZB2P (arXiv 2401.10241): a device keeps as many micro-batches as the first device of 1F1B does, or twice as many, and fills what
// would be idle with weight gradients.
//
//     zb1p  dev 0  F0 F1    I0 W0 F2 I1 W1 I2 W2
//           dev 1     F0 I0 F1 I1 W0 F2 I2 W1 W2
Rows zero_bubble_rows(const Layout& layout, const ScheduleCosts& costs, int times) {
  const ScheduleCosts weighed = counted(costs);
  std::vector<int> held = textbook_warm_ups(layout);
  const int most = times * held.front();
  GreedyPolicy policy;
  policy.limit.assign(as_index(layout.devices()), kShare * most);
  BestSpan best(layout, weighed);
  for (int& count : held) count = times * count - times + 1;
  for (const std::vector<int>& in_flight : {held, time_warm_ups(layout, costs, most, false), time_warm_ups(layout, costs, most, true)}) {
    policy.in_flight = in_flight;
    for (const auto& [first, idle_as_others] :
         {std::pair(GreedyPolicy::First::backward, false), {GreedyPolicy::First::backward, true}, {GreedyPolicy::First::forward, true}}) {
      policy.first = first;
      policy.idle_as_others = idle_as_others;
      policy.patience_percent = idle_as_others ? 0 : 100;
      best.consider(greedy_rows(layout, weighed, policy));
    }
  }
  return best.take();
}

// The pattern gives the order of forwards and input gradients and what is saved; the costs decide where weight gradients go.
Rows filled_rows(const Layout& layout, const ScheduleCosts& costs, const Rows& order, std::int64_t limit) {
  const ScheduleCosts weighed = counted(costs);
  BestSpan best(layout, weighed);
  best.consider_filled(order, limit);
  return best.take();
}

// The limit of saved activations is what the pattern itself keeps.
Rows filled_v_rows(const Layout& layout, const ScheduleCosts& costs, const VPattern& pattern) {
  const Rows order = v_rows(layout.devices(), layout.microbatches(), pattern);
  const ScheduleCosts whole{
      std::vector<StageCosts>(costs.stages.size(), StageCosts{.saved_activation_bytes = kShare, .held_bytes = kShare}), {}};
  return filled_rows(layout, costs, order, std::ranges::max(most_saved_bytes(order, whole)));
}

}  // namespace

std::vector<int> time_warm_ups(const Layout& layout, const ScheduleCosts& costs, int most, bool over) {
  const std::vector<int>& replicas = layout.replicas();
  std::vector<int> held(replicas.size(), 1);
  std::int64_t round_trip_ns = 0;
  for (std::size_t s = held.size(); s-- > 0;) {
    const StageCosts& stage = costs.stages[s];
    if (s + 1 < held.size())
      round_trip_ns += stage.send_output_ns + costs.stages[s + 1].send_gradient_ns + costs.stages[s + 1].backward_input_ns;
    round_trip_ns += stage.forward_ns;
    const std::int64_t each = std::max<std::int64_t>(1, stage.forward_ns);
    held[s] = static_cast<int>(std::clamp<std::int64_t>((round_trip_ns + (over ? each - 1 : 0)) / each, 1, most));
    if (s + 1 < held.size()) held[s] = std::max(held[s], std::min(most, (held[s + 1] * replicas[s + 1] + replicas[s] - 1) / replicas[s]));
  }
  return held;
}

Rows gpipe_rows(const Layout& layout, const ScheduleCosts&) {
  return all_forward_then_all_backward(layout);
}

Rows one_forward_one_backward_rows(const Layout& layout, const ScheduleCosts&) {
  return one_forward_one_backward(layout, textbook_warm_ups(layout));
}

Rows eager_rows(const Layout& layout, const ScheduleCosts& costs) {
  return one_forward_one_backward(layout, best_warm_ups(layout, costs));
}

// Groups of D leave a part of the last group empty where D does not divide the micro-batches; larger groups of about equal size, as torch
// has them, need longer warm-ups. The faster of the two by the textbook's costs is taken.
Rows interleaved_1f1b_rows(const Layout& layout, const ScheduleCosts&) {
  const int devices = layout.devices();
  const int groups = std::max(1, layout.microbatches() / devices);
  const int even = std::max(devices, (layout.microbatches() + groups - 1) / groups);
  Rows megatrons = interleaved_rows(devices, layout.stages(), layout.microbatches(), devices);
  if (even == devices) return megatrons;
  const ScheduleCosts textbook{std::vector<StageCosts>(as_index(layout.stages())), {}};
  BestSpan best(layout, textbook);
  best.consider(std::move(megatrons));
  best.consider(interleaved_rows(devices, layout.stages(), layout.microbatches(), even));
  return best.take();
}

Rows zb1p_rows(const Layout& layout, const ScheduleCosts& costs) {
  return zero_bubble_rows(layout, costs, 1);
}

Rows zb2p_rows(const Layout& layout, const ScheduleCosts& costs) {
  return zero_bubble_rows(layout, costs, 2);
}

Rows zbv_rows(const Layout& layout, const ScheduleCosts& costs) {
  return filled_rows(layout, costs, zero_bubble_v_order(layout.devices(), layout.microbatches()), kShare * 2 * layout.devices());
}

Rows v_half_rows(const Layout& layout, const ScheduleCosts& costs) {
  return filled_v_rows(layout, costs, {2, 1});
}

Rows v_min_rows(const Layout& layout, const ScheduleCosts& costs) {
  return filled_v_rows(layout, costs, {1, 1});
}

Rows dualpipe_v_rows(const Layout& layout, const ScheduleCosts&) {
  return dual_pipe_v_rows(layout.devices(), layout.microbatches());
}

}  // namespace mptune::planner
