#include "planner/schedule/fill.h"

#include <algorithm>
#include <deque>

#include "planner/schedule/arrivals.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

class WeightFiller {
 public:
  WeightFiller(const Layout& layout, const ScheduleCosts& costs, const Rows& order, const FillPolicy& policy)
      : layout_(layout), costs_(costs), order_(order), policy_(policy), devices_(order.size()), arrivals_(layout, costs) {
    filled_.rows.resize(order.size());
    for (std::size_t d = 0; d < order.size(); ++d) filled_.rows[d].reserve(order[d].size() * 3 / 2);
  }

  // Each device advances by one action per round, so that devices idle on the same terms.
  Filled run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t d = 0; d < devices_.size(); ++d) progress |= advance(d);
    }
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      Device& at = devices_[d];
      while (at.weighted < at.gradients.size()) add_weight(d);
      filled_.idle_ns.push_back(at.idle_ns);
      filled_.end_ns = std::max(filled_.end_ns, at.free_ns);
      if (at.started) filled_.span_ns = std::max(filled_.span_ns, at.free_ns - at.first_ns);
    }
    return std::move(filled_);
  }

 private:
  struct Device {
    std::size_t next = 0;
    std::int64_t free_ns = 0;
    std::int64_t first_ns = 0;
    std::int64_t idle_ns = 0;
    std::int64_t saved_activation_bytes = 0;
    bool started = false;
    std::vector<Action> gradients;  // weight gradients, in the order of their input gradients
    std::size_t weighted = 0;       // how many of them are done
  };

  [[nodiscard]] const StageCosts& costs(const Action& action) const { return costs_.stages[as_index(action.stage)]; }

  bool advance(std::size_t d) {
    Device& at = devices_[d];
    const std::vector<Action>& row = order_[d];
    while (at.next < row.size() && row[at.next].kind == ActionKind::backward_weight) ++at.next;
    if (at.next == row.size()) return false;
    Action action = row[at.next];
    if (action.kind == ActionKind::backward) action.kind = ActionKind::backward_input;
    const std::int64_t ready = arrivals_.at(action);
    if (ready == Arrivals::kNever) return false;
    ++at.next;
    make_room(d, action);
    while (at.weighted < at.gradients.size() && ready > at.free_ns) {
      const std::int64_t weight_ns = costs(at.gradients[at.weighted]).backward_weight_ns;
      if (at.free_ns + weight_ns > ready && waits(d, action.kind, ready - at.free_ns, weight_ns)) break;
      add_weight(d);
    }
    add(d, action, ready);
    return true;
  }

  void make_room(std::size_t d, const Action& action) {
    Device& at = devices_[d];
    while (at.weighted < at.gradients.size() && at.saved_activation_bytes + bytes_left(costs(action), action.kind) > policy_.limit[d])
      add_weight(d);
  }

  [[nodiscard]] bool waits(std::size_t d, ActionKind kind, std::int64_t wait_ns, std::int64_t weight_ns) const {
    const bool forward = kind == ActionKind::forward;
    if (wait_ns * 100 < weight_ns * (forward ? policy_.forward_patience_percent : policy_.backward_patience_percent)) return true;
    return policy_.idle_as_others && wait_ns <= std::max(most_idle_ns_, policy_.idle_ns[d]) - devices_[d].idle_ns;
  }

  void add_weight(std::size_t d) { add(d, devices_[d].gradients[devices_[d].weighted++], 0); }

  void add(std::size_t d, const Action& action, std::int64_t ready_ns) {
    Device& at = devices_[d];
    const std::int64_t start = std::max(at.free_ns, ready_ns);
    if (!at.started) at.first_ns = start;
    if (at.started) most_idle_ns_ = std::max(most_idle_ns_, at.idle_ns += start - at.free_ns);
    at.started = true;
    at.free_ns = start + duration_ns(costs(action), action.kind);
    at.saved_activation_bytes += bytes_left(costs(action), action.kind);
    filled_.rows[d].push_back(action);
    if (action.kind == ActionKind::backward_weight) return;
    if (action.kind == ActionKind::backward_input) at.gradients.push_back({action.stage, ActionKind::backward_weight, action.microbatch});
    arrivals_.send(action, at.free_ns);
  }

  const Layout& layout_;
  const ScheduleCosts& costs_;
  const Rows& order_;
  const FillPolicy& policy_;
  std::vector<Device> devices_;
  Arrivals arrivals_;
  std::int64_t most_idle_ns_ = 0;
  Filled filled_;
};

}  // namespace

Filled fill_weights(const Layout& layout, const ScheduleCosts& costs, const Rows& order, const FillPolicy& policy) {
  return WeightFiller(layout, costs, order, policy).run();
}

Rows late_weights(const ScheduleCosts& costs, const Rows& order) {
  Rows rows;
  for (std::size_t d = 0; d < order.size(); ++d) {
    std::vector<Action>& row = rows.emplace_back();
    std::deque<Action> weights;
    std::int64_t kept = 0;
    const auto add = [&](const Action& action) {
      kept += bytes_left(costs.stages[as_index(action.stage)], action.kind);
      row.push_back(action);
    };
    const auto add_weight = [&] {
      add(weights.front());
      weights.pop_front();
    };
    for (Action action : order[d]) {
      if (action.kind == ActionKind::backward_weight) continue;
      if (action.kind == ActionKind::backward) action.kind = ActionKind::backward_input;
      const std::int64_t more = bytes_left(costs.stages[as_index(action.stage)], action.kind);
      while (!weights.empty() && !costs.free_bytes.empty() && more > costs.free_bytes[d] - kept) add_weight();
      add(action);
      if (action.kind == ActionKind::backward_input) weights.push_back({action.stage, ActionKind::backward_weight, action.microbatch});
    }
    while (!weights.empty()) add_weight();
  }
  return rows;
}

}  // namespace mptune::planner
