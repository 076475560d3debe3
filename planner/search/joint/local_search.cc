#include "planner/search/joint/local_search.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <string>
#include <utility>

#include "planner/plan/helping.h"
#include "planner/search/bounds/helping_bound.h"
#include "planner/search/joint/work_share.h"
#include "planner/search/search_budget.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

// Calls `use` with every set of `count` of the open layers, ascending.
void for_all_sets(const std::vector<int>& open, std::size_t count, const std::function<void(const std::vector<int>&)>& use) {
  std::vector<int> chosen;
  const auto choose = [&](const auto& again, std::size_t from) -> void {
    if (chosen.size() == count) return use(chosen);
    for (std::size_t at = from; at + (count - chosen.size()) <= open.size(); ++at) {
      chosen.push_back(open[at]);
      again(again, at + 1);
      chosen.pop_back();
    }
  };
  choose(choose, 0);
}

std::vector<int> open_layers(const CostModel& cost) {
  std::vector<int> open;
  for (int layer = 1; layer < cost.layers(); ++layer)
    if (cost.may_cut(layer)) open.push_back(layer);
  return open;
}

// Returns the cuts with one cut moved to the next open layer.
std::vector<std::vector<int>> neighbours(const std::vector<int>& cuts, const std::vector<int>& open) {
  std::vector<std::vector<int>> all;
  for (std::size_t c = 0; c < cuts.size(); ++c) {
    const auto at = std::ranges::lower_bound(open, cuts[c]);
    std::vector<int> moved = cuts;
    if (at != open.begin() && (c == 0 || *std::prev(at) > cuts[c - 1])) {
      moved[c] = *std::prev(at);
      all.push_back(moved);
    }
    if (std::next(at) != open.end() && (c + 1 == cuts.size() || *std::next(at) < cuts[c + 1])) {
      moved[c] = *std::next(at);
      all.push_back(moved);
    }
  }
  return all;
}

}  // namespace

LocalSearch::LocalSearch(FamilyTable& table) : table_(table), evaluator_(table.evaluator()) {}

void LocalSearch::helping() {
  std::vector<FamilyState*> helped;
  for (FamilyState& state : table_.states())
    if (state.family.helping && takes(state.family)) helped.push_back(&state);
  one_by_one(std::move(helped));
}

void LocalSearch::one_by_one(std::vector<FamilyState*> states) {
  const WorkShare share(evaluator_, SearchBudget::kOneByOneWorkDivisor);
  for (FamilyState* state : states) {
    if (share.spent()) return;
    if (!table_.slower(state->proof.lower_ns)) try_known_cuts(*state);
  }
  std::ranges::stable_sort(states, {}, [](const FamilyState* state) { return state->best_s; });
  int improved = 0;
  for (FamilyState* state : states) {
    if (share.spent()) return;
    const std::int64_t plans = state->family.plans;
    const std::int64_t most_work = evaluator_.work_left() / SearchBudget::kAllCutsWorkDivisor;
    if (table_.slower(state->proof.lower_ns)) {
      state->proof.solved = true;
    } else if (plans <= SearchBudget::kMostCutSets && plans * table_.work_per_plan(state->family) <= most_work) {
      try_all_cuts(*state);
    } else if (state->best_s <= SearchBudget::kPromising * table_.threshold_s(SearchGoal::best) &&
               improved < SearchBudget::kImprovedFamilies) {
      ++improved;
      improve(*state, SearchBudget::kMoves);
    }
  }
}

// Tries the seeds, and the cuts that are best for other schedules on the same devices.
void LocalSearch::try_known_cuts(FamilyState& state) {
  std::vector<std::vector<int>> known = table_.choices().sharper().seeds(state.family);
  for (const FamilyState& other : table_.states()) {
    const PlanFamily& family = other.family;
    if (family.helping || family.devices != state.family.devices || family.sizes != state.family.sizes || other.best_cuts.empty()) continue;
    if (std::ranges::count(known, other.best_cuts) == 0) known.push_back(other.best_cuts);
  }
  for (const std::vector<int>& cuts : known)
    if (!evaluator_.spent()) table_.try_cuts(state, cuts);
}

void LocalSearch::try_all_cuts(FamilyState& state) {
  const CostModel& cost = table_.cost();
  const HelpingBound bound(cost, in_profile(state.family.devices, cost.device_indices(table_.space().devices)), state.family.sizes);
  std::vector<std::pair<std::int64_t, std::vector<int>>> sets;
  for_all_sets(open_layers(cost), as_index(state.family.stages() - 1),
               [&](const std::vector<int>& cuts) { sets.emplace_back(bound.of(cuts), cuts); });
  std::ranges::sort(sets);
  state.seen = 0;
  for (const auto& [bound_ns, cuts] : sets) {
    if (table_.slower(bound_ns)) break;
    if (evaluator_.spent()) {
      state.proof.lower_ns = std::max(state.proof.lower_ns, bound_ns);
      return;
    }
    table_.try_cuts(state, cuts);
  }
  state.proof.solved = true;
}

void LocalSearch::improve(FamilyState& state, int most) {
  const std::vector<int> open = open_layers(table_.cost());
  std::vector<std::vector<int>> tried;
  for (bool better = true; better && !evaluator_.spent();) {
    better = false;
    for (const std::vector<int>& cuts : neighbours(state.best_cuts, open)) {
      if (std::ranges::count(tried, cuts) > 0) continue;
      if (std::ssize(tried) >= most || evaluator_.spent()) return;
      tried.push_back(cuts);
      const double before = state.best_s;
      table_.try_cuts(state, cuts);
      if (state.best_s < before) {
        better = true;
        break;
      }
    }
  }
}

void LocalSearch::help_ranked() {
  const bool any = std::ranges::any_of(table_.states(), [](const FamilyState& state) { return state.family.helping; });
  if (!any) return;
  const std::vector<std::string>& devices = table_.space().devices;
  for (Candidate& candidate : evaluator_.ranking().ranked()) {
    Plan& plan = candidate.plan;
    if (evaluator_.spent()) return;
    if (plan.num_stages() < 2 || plan.options.idle_devices_help || !splits_backward(plan)) continue;
    plan.options.idle_devices_help = true;
    std::vector<std::int64_t> caps;
    for (const std::string& device : plan.devices)
      caps.push_back(table_.caps()[as_index(std::ranges::find(devices, device) - devices.begin())]);
    evaluator_.evaluate(Parallelism::pipeline, std::move(plan), caps);
  }
}

}  // namespace mptune::planner
