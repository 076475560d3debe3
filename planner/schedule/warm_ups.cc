#include "planner/schedule/warm_ups.h"

#include <algorithm>

#include "planner/schedule/timing.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr std::int64_t kMostTriedActions = 24'000;  // limit of actions that best_warm_ups() times, over all warm-ups that it tries

int rounded_up(std::int64_t value, std::int64_t by) {
  return static_cast<int>((value + by - 1) / by);
}

// Returns warm-ups that keep the slowest stage busy: a micro-batch is on a stage from the start of its forward to the end of its backward,
// and a new one comes as often as the slowest stage takes one.
std::vector<int> round_trip_warm_ups(const Layout& layout, const ScheduleCosts& costs) {
  const std::vector<int>& replicas = layout.replicas();
  std::vector<int> held = textbook_warm_ups(layout);
  std::int64_t cycle = 1;
  for (std::size_t s = 0; s < held.size(); ++s)
    cycle = std::max(cycle, (costs.stages[s].forward_ns + costs.stages[s].backward_ns) / replicas[s]);
  std::int64_t round_trip_ns = 0;
  for (std::size_t s = held.size(); s-- > 0;) {
    if (s + 1 < held.size()) round_trip_ns += costs.stages[s].send_output_ns + costs.stages[s + 1].send_gradient_ns;
    round_trip_ns += costs.stages[s].forward_ns + costs.stages[s].backward_ns;
    const std::int64_t needed = std::min<std::int64_t>(layout.microbatches(), 1 + (round_trip_ns - 1) / (cycle * replicas[s]));
    const int fed = s + 1 < held.size() ? rounded_up(std::int64_t{held[s + 1]} * replicas[s + 1], replicas[s]) : 1;
    held[s] = std::max({held[s], static_cast<int>(needed), fed});
  }
  return held;
}

// Tries warm-ups and keeps the best.
class WarmUpSearch {
 public:
  WarmUpSearch(const Layout& layout, const ScheduleCosts& costs)
      : layout_(layout),
        replicas_(layout.replicas()),
        replay_(layout, costs),
        most_(replicas_.size(), layout.microbatches()),
        bound_ns_(shortest_of_any_order(layout, costs)) {
    for (const Unit& unit : layout.units()) {
      const auto s = as_index(unit.stage);
      const std::int64_t bytes = costs.stages[s].saved_activation_bytes;
      if (costs.free_bytes.empty() || bytes <= 0) continue;
      const std::int64_t room = std::max<std::int64_t>(1, costs.free_bytes[as_index(unit.device)] / bytes);
      most_[s] = static_cast<int>(std::min<std::int64_t>(most_[s], room));
    }
    limit_later(most_);
  }

  std::vector<int> run(const std::vector<std::vector<int>>& starts) {
    for (std::vector<int> start : starts) {
      limit(start);
      consider(start);
    }
    consider(most_);
    if (best_.empty()) consider(std::vector<int>(most_.size(), 1));  // one micro-batch at a time never blocks another
    if (best_ns_ != bound_ns_) {
      const std::vector<std::vector<int>> all = all_if_few();
      for (const std::vector<int>& warm_ups : all) consider(warm_ups);
      while (all.empty() && !ended() && change_one()) continue;
    }
    for (std::size_t s = most_.size(); s-- > 0;) shorten(s);
    return best_;
  }

 private:
  // A stage can hold no more than the stage before it feeds.
  void limit_later(std::vector<int>& warm_ups) const {
    for (std::size_t s = 1; s < warm_ups.size(); ++s)
      warm_ups[s] = std::clamp(warm_ups[s - 1] * replicas_[s - 1] / replicas_[s], 1, warm_ups[s]);
  }

  void limit(std::vector<int>& warm_ups) const {
    for (std::size_t s = 0; s < warm_ups.size(); ++s) warm_ups[s] = std::min(warm_ups[s], most_[s]);
    limit_later(warm_ups);
  }

  [[nodiscard]] std::int64_t actions() const { return std::int64_t{2} * layout_.stages() * layout_.microbatches(); }
  [[nodiscard]] bool ended() const { return best_ns_ == bound_ns_ || tried_actions_ > kMostTriedActions; }

  // Returns all warm-ups within the limits, or none if trying them takes too long.
  [[nodiscard]] std::vector<std::vector<int>> all_if_few() const {
    const auto few = static_cast<std::size_t>(kMostTriedActions / actions());
    std::vector<std::vector<int>> all = {{}};
    for (std::size_t s = 0; s < most_.size(); ++s) {
      std::vector<std::vector<int>> longer;
      for (const std::vector<int>& first : all) {
        const int fed = s == 0 ? most_[0] : std::max(1, first.back() * replicas_[s - 1] / replicas_[s]);
        for (int w = 1; w <= std::min(most_[s], fed); ++w) {
          longer.push_back(first);
          longer.back().push_back(w);
        }
        if (longer.size() > few) return {};
      }
      all = std::move(longer);
    }
    return all;
  }

  bool consider(const std::vector<int>& warm_ups) {
    if (best_ns_ == bound_ns_) return false;
    tried_actions_ += actions();
    const std::int64_t ns = replay_.run(one_forward_one_backward(layout_, warm_ups));
    if (ns < 0 || (!best_.empty() && ns >= best_ns_)) return false;
    best_ = warm_ups;
    best_ns_ = ns;
    return true;
  }

  // Tries other warm-ups of each stage, and changes those of other stages where that requires it. Returns false if none is better.
  bool change_one() {
    bool better = false;
    for (std::size_t s = 0; s < most_.size(); ++s)
      for (const int to : {best_[s] - 1, best_[s] + 1, 2 * best_[s], most_[s]}) {
        if (ended()) return false;
        if (to < 1 || to > most_[s] || to == best_[s]) continue;
        std::vector<int> changed = best_;
        changed[s] = to;
        for (std::size_t before = s; before-- > 0;)
          changed[before] =
              std::max(changed[before], rounded_up(std::int64_t{changed[before + 1]} * replicas_[before + 1], replicas_[before]));
        limit(changed);
        better = consider(changed) || better;
      }
    return better;
  }

  // Finds by bisection a shorter warm-up of the stage with which the step is as short.
  void shorten(std::size_t stage) {
    int low = 1;
    while (low < best_[stage] && tried_actions_ <= kMostTriedActions) {
      std::vector<int> shorter = best_;
      shorter[stage] = (low + best_[stage]) / 2;
      limit_later(shorter);
      tried_actions_ += actions();
      if (replay_.run(one_forward_one_backward(layout_, shorter)) == best_ns_)
        best_ = shorter;
      else
        low = shorter[stage] + 1;
    }
  }

  const Layout& layout_;
  const std::vector<int>& replicas_;
  ScheduleReplay replay_;
  std::vector<int> most_;  // per stage
  std::int64_t bound_ns_;
  std::vector<int> best_;
  std::int64_t best_ns_ = -1;
  std::int64_t tried_actions_ = 0;
};

}  // namespace

std::vector<int> textbook_warm_ups(const Layout& layout) {
  const std::vector<int>& replicas = layout.replicas();
  std::vector<int> held(replicas.size(), 1);
  for (std::size_t s = replicas.size(); s-- > 1;) held[s - 1] = rounded_up(std::int64_t{held[s]} * replicas[s], replicas[s - 1]) + 1;
  return held;
}

std::vector<int> best_warm_ups(const Layout& layout, const ScheduleCosts& costs) {
  return WarmUpSearch(layout, costs).run({textbook_warm_ups(layout), round_trip_warm_ups(layout, costs)});
}

// For every stage s these paths begin with the first forwards up to s and end with the last backwards from s on; the longest one counts:
//
//     all forwards and backwards of s
//     a forward, its way to the last stage and back, all backwards        all forwards, the way of the last one, its backward
//     all copies of outputs to the next stage, on the way of the last     all copies of gradients from there, on the way of the first
std::int64_t shortest_of_any_order(const Layout& layout, const ScheduleCosts& costs) {
  if (!layout.single()) return 0;
  const std::int64_t m = layout.microbatches();
  const std::size_t last = costs.stages.size() - 1;
  // Returns the part of a backward that follows the gradient that it waits for.
  const auto behind_gradient = [&](std::size_t s) {
    const StageCosts& stage = costs.stages[s];
    return s < last ? stage.backward_ns - stage.recompute_ns : stage.backward_ns;
  };
  std::vector<std::int64_t> away(last + 1, 0);  // from the end of a forward until its gradient has arrived
  for (std::size_t s = last; s-- > 0;)
    away[s] = costs.stages[s].send_output_ns + costs.stages[s + 1].forward_ns + away[s + 1] + behind_gradient(s + 1) +
              costs.stages[s + 1].send_gradient_ns;
  std::int64_t longest = 0;
  std::int64_t before_and_behind = 0;  // first forwards and last backwards of the stages before s
  for (std::size_t s = 0; s <= last; ++s) {
    const StageCosts& stage = costs.stages[s];
    const std::int64_t one = stage.forward_ns + away[s] + behind_gradient(s);
    std::int64_t most = std::max(m * (stage.forward_ns + stage.backward_ns), one + (m - 1) * std::max(stage.forward_ns, stage.backward_ns));
    if (s < last) most = std::max(most, one + (m - 1) * std::max(stage.send_output_ns, costs.stages[s + 1].send_gradient_ns));
    longest = std::max(longest, before_and_behind + most);
    before_and_behind += stage.forward_ns + stage.send_output_ns + behind_gradient(s);
    if (s < last) before_and_behind += costs.stages[s + 1].send_gradient_ns;
  }
  return longest;
}

Rows one_forward_one_backward(const Layout& layout, const std::vector<int>& warm_ups) {
  Rows rows;
  for (int d = 0; d < layout.devices(); ++d) {
    std::vector<Action>& row = rows.emplace_back();
    if (layout.on(d).empty()) continue;
    const Unit& unit = layout.units()[as_index(layout.on(d).front())];
    const int warm_up = std::min(unit.count, warm_ups[as_index(unit.stage)]);
    row.reserve(2 * as_index(unit.count));
    for (int k = 0; k < warm_up; ++k) row.push_back({unit.stage, ActionKind::forward, unit.microbatch(k)});
    for (int k = 0; k < unit.count; ++k) {
      row.push_back({unit.stage, ActionKind::backward, unit.microbatch(k)});
      if (k + warm_up < unit.count) row.push_back({unit.stage, ActionKind::forward, unit.microbatch(k + warm_up)});
    }
  }
  return rows;
}

}  // namespace mptune::planner
