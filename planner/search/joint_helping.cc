#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "planner/helping.h"
#include "planner/schedule/schedule_info.h"
#include "planner/search/helping_bound.h"
#include "planner/search/joint_search.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr std::int64_t kMostCutSets = 4'096;        // most sets of cuts of a family that is searched completely
constexpr std::int64_t kHelpingWorkDivisor = 4;     // helping() gets 1 / this of the work that is left
constexpr std::int64_t kFamilyShare = 16;           // a family searched completely gets 1 / this of the work that is left
constexpr int kImprovedFamilies = 6;                // families whose cuts are moved
constexpr int kMoves = 64;                          // cuts tried around the best ones of a family
constexpr int kFirstLists = 8;                      // families of `list` that are tried before others are searched
constexpr std::int64_t kFirstListsWorkDivisor = 2;  // first_lists() gets 1 / this of the work that is left
constexpr int kFirstListMoves = 16;                 // cuts tried around the best ones of the best of these
constexpr int kLists = 6;                           // families of `list` that are tried once the others were searched
constexpr int kListMoves = 8;                       // cuts tried around the best ones of the best of them
constexpr double kPromising = 1.1;                  // families whose best step is more than this many times the best one are not improved

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

bool made_by_search(const PlanFamily& family) {
  return schedule_info(family.schedule).rows_from == RowsFrom::search;
}

}  // namespace

// True for families that partition() can't bound well, or not within little work.
bool JointSearch::set_aside(const FamilyState& state) const {
  return state.family.helping || state.further || (more_than_lists_ && made_by_search(state.family));
}

// Returns the fastest family on the same devices with the same micro-batches; null: none was seen.
const FamilyState* JointSearch::fastest_alike(const FamilyState& state) const {
  const FamilyState* fastest = nullptr;
  for (const FamilyState& other : states_) {
    if (other.family.helping || other.best_cuts.empty() || (fastest != nullptr && other.best_s >= fastest->best_s)) continue;
    if (other.family.sizes == state.family.sizes && other.family.devices == state.family.devices) fastest = &other;
  }
  return fastest;
}

// This runs before other families are searched: families of `list` have the lowest bounds, and their plans are often among the fastest.
void JointSearch::first_lists() {
  const std::int64_t least_left = evaluator_.work_left() - evaluator_.work_left() / kFirstListsWorkDivisor;
  int tried = 0;
  FamilyState* best = nullptr;
  for (FamilyState& state : states_) {
    const bool open = !state.family.helping && !state.further && state.family.executable() && set_aside(state);
    if (!open || state.family.seed.empty() || state.proof.lower_ns > threshold_ns(Goal::best)) continue;
    if (tried == kFirstLists || evaluator_.spent()) break;
    if (!try_seeds_of_list(state, least_left)) continue;
    ++tried;
    if (best == nullptr || state.best_s < best->best_s) best = &state;
  }
  if (best == nullptr || best->best_cuts.empty()) return;
  first_lists_of_more_stages(least_left);
  const std::int64_t moves = (evaluator_.work_left() - least_left) / helping_work(*best);
  if (moves > 0) try_neighbours(*best, static_cast<int>(std::min<std::int64_t>(moves, kFirstListMoves)));
}

// Returns false where the bound excludes the family, or its rows take more work than is left.
bool JointSearch::try_seeds_of_list(FamilyState& state, std::int64_t least_left) {
  const auto affordable = [&] { return evaluator_.work_left() - helping_work(state) >= least_left; };
  if (!affordable()) return false;
  sharpen(state);
  if (state.proof.lower_ns > threshold_ns(Goal::best)) return false;
  for (const std::vector<int>& cuts : choices_.seeds(state.family))
    if (affordable() && !evaluator_.spent()) try_cuts(state, cuts);
  return true;
}

void JointSearch::lists() {
  std::vector<std::pair<double, FamilyState*>> promising;
  for (FamilyState& state : states_) {
    if (state.family.helping || !state.family.executable() || !set_aside(state)) continue;
    if (state.proof.lower_ns > threshold_ns(Goal::best)) {
      state.proof.solved = true;
      continue;
    }
    const FamilyState* alike = evaluator_.spent() ? nullptr : fastest_alike(state);
    if (alike != nullptr) promising.emplace_back(alike->best_s, &state);
  }
  std::ranges::stable_sort(promising, {}, [](const auto& one) { return one.first; });
  FamilyState* best = nullptr;
  for (std::size_t k = 0; k < promising.size() && k < kLists && !evaluator_.spent(); ++k) {
    FamilyState& state = *promising[k].second;
    const std::vector<int> cuts = fastest_alike(state)->best_cuts;
    const bool tried = state.seen > 0 && cuts == state.family.seed;
    if (!tried) try_cuts(state, cuts);
    if (best == nullptr || state.best_s < best->best_s) best = &state;
  }
  if (best != nullptr && !best->best_cuts.empty()) try_neighbours(*best, kListMoves);
}

// Rows of `list` take too long to make. lists() tries some, help_ranked() those of ranked plans.
bool JointSearch::tried_one_by_one(const PlanFamily& family) const {
  return family.executable() && !made_by_search(family);
}

void JointSearch::helping() {
  std::vector<FamilyState*> helped;
  for (FamilyState& state : states_)
    if (state.family.helping && tried_one_by_one(state.family)) helped.push_back(&state);
  try_one_by_one(helped);
}

void JointSearch::try_one_by_one(const std::vector<FamilyState*>& states) {
  std::vector<FamilyState*> helped = states;
  const std::int64_t least_left = evaluator_.work_left() - evaluator_.work_left() / kHelpingWorkDivisor;
  const auto enough = [&] { return evaluator_.spent() || evaluator_.work_left() < least_left; };
  for (FamilyState* state : helped) {
    if (enough()) return;
    if (state->proof.lower_ns <= threshold_ns(Goal::best)) try_known_cuts(*state);
  }
  std::ranges::stable_sort(helped, {}, [](const FamilyState* state) { return state->best_s; });
  int improved = 0;
  for (FamilyState* state : helped) {
    if (enough()) return;
    if (state->proof.lower_ns > threshold_ns(Goal::best)) {
      state->proof.solved = true;
    } else if (state->family.plans <= kMostCutSets && state->family.plans * helping_work(*state) <= evaluator_.work_left() / kFamilyShare) {
      try_all_cuts(*state);
    } else if (state->best_s <= kPromising * threshold_s(Goal::best) && improved < kImprovedFamilies) {
      ++improved;
      try_neighbours(*state, kMoves);
    }
  }
}

// Returns the simulated actions and layers of weight gradients, and what the rows cost.
std::int64_t JointSearch::helping_work(const FamilyState& state) const {
  const auto microbatches = std::ssize(state.family.sizes);
  return microbatches * (2 * state.family.stages() * schedule_info(state.family.schedule).relative_cost + cost_.layers());
}

// Tries the cuts that are best for other schedules on the same devices, and the seed.
void JointSearch::try_known_cuts(FamilyState& state) {
  std::vector<std::vector<int>> known = choices_.seeds(state.family);
  for (const FamilyState& other : states_) {
    const PlanFamily& family = other.family;
    if (family.helping || family.devices != state.family.devices || family.sizes != state.family.sizes || other.best_cuts.empty()) continue;
    if (std::ranges::count(known, other.best_cuts) == 0) known.push_back(other.best_cuts);
  }
  for (const std::vector<int>& cuts : known)
    if (!evaluator_.spent()) try_cuts(state, cuts);
}

void JointSearch::try_all_cuts(FamilyState& state) {
  std::vector<std::vector<int>> stages;
  for (const std::vector<int>& stage : state.family.devices) {
    std::vector<int>& indices = stages.emplace_back();
    for (const int d : stage) indices.push_back(cost_.device_index(space_.devices[as_index(d)]));
  }
  const HelpingBound bound(cost_, std::move(stages), state.family.sizes);
  std::vector<std::pair<std::int64_t, std::vector<int>>> sets;
  for_all_sets(open_layers(cost_), as_index(state.family.stages() - 1),
               [&](const std::vector<int>& cuts) { sets.emplace_back(bound.of(cuts), cuts); });
  std::ranges::sort(sets);
  state.seen = 0;
  for (const auto& [bound_ns, cuts] : sets) {
    if (bound_ns > threshold_ns(Goal::best)) break;
    if (evaluator_.spent()) {
      state.proof.lower_ns = std::max(state.proof.lower_ns, bound_ns);
      return;
    }
    try_cuts(state, cuts);
  }
  state.proof.solved = true;
}

void JointSearch::try_neighbours(FamilyState& state, int moves) {
  const std::vector<int> open = open_layers(cost_);
  std::vector<std::vector<int>> tried;
  for (bool better = true; better && !evaluator_.spent();) {
    better = false;
    for (const std::vector<int>& cuts : neighbours(state.best_cuts, open)) {
      if (std::ranges::count(tried, cuts) > 0) continue;
      if (std::ssize(tried) >= moves || evaluator_.spent()) return;
      tried.push_back(cuts);
      const double before = state.best_s;
      try_cuts(state, cuts);
      if (state.best_s < before) {
        better = true;
        break;
      }
    }
  }
}

// Evaluates ranked plans with the same rows and with idle devices that help.
void JointSearch::help_ranked() {
  const bool any = std::ranges::any_of(states_, [](const FamilyState& state) { return state.family.helping; });
  if (!any) return;
  for (Candidate& candidate : evaluator_.ranking().ranked()) {
    Plan& plan = candidate.plan;
    if (evaluator_.spent()) return;
    if (plan.num_stages() < 2 || plan.options.idle_devices_help || !splits_backward(plan)) continue;
    plan.options.idle_devices_help = true;
    std::vector<std::int64_t> caps;
    for (const std::string& device : plan.devices)
      caps.push_back(caps_[as_index(std::ranges::find(space_.devices, device) - space_.devices.begin())]);
    evaluator_.evaluate(Parallelism::pipeline, std::move(plan), caps);
  }
}

}  // namespace mptune::planner
