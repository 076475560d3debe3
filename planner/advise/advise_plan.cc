#include <algorithm>
#include <optional>
#include <set>

#include "planner/advise/advise.h"
#include "planner/advise/worth.h"
#include "planner/plan/plan_error.h"
#include "planner/simulate/schedule_costs.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/index.h"
#include "profiler/trace/values/samples_taken.h"

namespace mptune::planner {
namespace {

struct Change {
  double step_s = 0;
  int stage = -1;
  Remedy remedy;
};

class Changes {
 public:
  Changes(const Plan& plan, const CostModel& cost) : plan_(plan), cost_(cost), step_s_(predict(plan, cost).step_s) {}

  std::vector<Advice> advise() {
    if (remade(plan_).has_value()) {
      add(IdleCause::imbalance, best_cut());
      add(IdleCause::structural, best_split());
    }
    add(IdleCause::imbalance, without_recomputation());
    add(IdleCause::copy_wait, faster_links());
    return std::move(list_).take();
  }

 private:
  void add(IdleCause cause, const std::optional<Change>& change) {
    if (change) list_.add({cause, "", change->stage, step_s_ - change->step_s, 0, change->remedy}, step_s_);
  }

  // Returns the plan with its schedule made anew; nullopt where the schedule has no generator or can't be made.
  [[nodiscard]] std::optional<Plan> remade(Plan plan) const {
    return if_possible([&] {
      schedule_plan(plan, plan.schedule, cost_);
      return std::move(plan);
    });
  }

  void consider(std::optional<Change>& best, const Plan& changed, int stage, const Remedy& remedy) const {
    const std::optional<Plan> plan = remade(changed);
    if (!plan || !fits(*plan)) return;
    const double step_s = predict(*plan, cost_).step_s;
    if (!best || step_s < best->step_s) best = Change{step_s, stage, remedy};
  }

  [[nodiscard]] bool fits(const Plan& plan) const {
    const std::vector<std::int64_t> peak = cost_.peak_bytes(plan);
    for (std::size_t d = 0; d < peak.size(); ++d) {
      const std::int64_t cap = cost_.profile().devices[as_index(cost_.device_index(plan.devices[d]))].memory_bytes;
      if (cap > 0 && peak[d] > cap) return false;
    }
    return true;
  }

  [[nodiscard]] const std::string& layer_name(int layer) const { return cost_.profile().layers[as_index(layer)].name; }

  [[nodiscard]] static std::vector<int> cuts_of(const Plan& plan) {
    std::vector<int> cuts;
    for (std::size_t s = 1; s < plan.stages.size(); ++s) cuts.push_back(plan.stages[s].first_layer);
    return cuts;
  }

  [[nodiscard]] std::optional<Change> best_cut() const {
    std::optional<Change> best;
    for (int s = 0; s + 1 < plan_.num_stages(); ++s) {
      const auto front = as_index(s);
      const int cut = plan_.stages[front].last_layer;
      const auto moved = [&](int to) {
        Plan plan = plan_;
        plan.stages[front].last_layer = to;
        plan.stages[front + 1].first_layer = to;
        return plan;
      };
      if (cut - plan_.stages[front].first_layer > 1)
        consider(best, moved(cut - 1), s, MoveLayer{layer_name(cut - 1), s + 1, cuts_of(moved(cut - 1))});
      if (plan_.stages[front + 1].last_layer - cut > 1)
        consider(best, moved(cut + 1), s + 1, MoveLayer{layer_name(cut), s, cuts_of(moved(cut + 1))});
    }
    return best;
  }

  [[nodiscard]] std::optional<Change> best_split() const {
    std::optional<Change> best;
    const int m = plan_.num_microbatches();
    const auto [fewest, most] = allowed_counts(profiler::samples_taken(cost_.profile().layers), plan_.global_batch_size());
    for (const int other : std::set<int>{m / 2, m * 2 / 3, m - 1, m + 1, m * 3 / 2, m * 2, m * 4}) {
      if (other < fewest || other == m || other > most) continue;
      Plan plan = plan_;
      plan.microbatch_sizes = split_evenly(plan_.global_batch_size(), other);
      consider(best, plan, -1, OtherMicrobatches{other, m});
    }
    return best;
  }

  [[nodiscard]] std::optional<Change> without_recomputation() const {
    Plan plan = plan_;
    bool recomputed = false;
    for (Stage& stage : plan.stages) {
      recomputed = recomputed || stage.recompute.mode != Recompute::Mode::none;
      stage.recompute = {};
    }
    if (!recomputed || !fits(plan)) return std::nullopt;
    return Change{predict(plan, cost_).step_s, -1, SaveActivations{}};
  }

  [[nodiscard]] std::optional<Change> faster_links() const {
    Profile profile = cost_.profile();
    for (LinkCost& link : profile.links) {
      link.bytes_per_second *= 2;
      for (LinkPoint& point : link.curve) point.seconds = std::min(point.seconds, (link.latency_s + point.seconds) / 2);
    }
    for (NetworkLink& link : profile.network.within) link.bytes_per_second *= 2;
    profile.network.between.bytes_per_second *= 2;
    return Change{predict(plan_, CostModel(profile, plan_)).step_s, -1, FasterLinks{}};
  }

  const Plan& plan_;
  const CostModel& cost_;
  double step_s_;
  Worth list_;
};

}  // namespace

std::vector<Advice> advise(const Plan& plan, const CostModel& cost) {
  return Changes(plan, cost).advise();
}

}  // namespace mptune::planner
