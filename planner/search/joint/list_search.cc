#include "planner/search/joint/list_search.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "planner/search/search_budget.h"

namespace mptune::planner {

ListSearch::ListSearch(FamilyTable& table, LocalSearch& local) : table_(table), evaluator_(table.evaluator()), local_(local) {}

bool ListSearch::tries(const FamilyState& state) const {
  return !state.family.helping && state.family.executable() && table_.tried_late(state);
}

// This runs before other families are searched: families of `list` have the lowest bounds, and their plans are often among the fastest.
void ListSearch::first() {
  const WorkShare share(evaluator_, SearchBudget::kFirstListsWorkDivisor);
  FamilyState* best = try_first_families(share);
  if (best == nullptr || best->best_cuts.empty()) return;
  try_more_stages(share);
  const std::int64_t moves = share.left() / table_.work_per_plan(best->family);
  if (moves > 0) local_.improve(*best, static_cast<int>(std::min<std::int64_t>(moves, SearchBudget::kFirstListMoves)));
}

// Returns the family with the fastest plan; null: no family was tried.
FamilyState* ListSearch::try_first_families(const WorkShare& share) {
  int tried = 0;
  FamilyState* best = nullptr;
  for (FamilyState& state : table_.states()) {
    if (!tries(state) || state.more_stages || state.family.seed.empty() || table_.slower(state.proof.lower_ns)) continue;
    if (tried == SearchBudget::kFirstLists || evaluator_.spent()) break;
    if (!try_seeds(state, share)) continue;
    ++tried;
    if (best == nullptr || state.best_s < best->best_s) best = &state;
  }
  return best;
}

// Returns false where the bound excludes the family, or its rows take more work than is left.
bool ListSearch::try_seeds(FamilyState& state, const WorkShare& share) {
  const auto affordable = [&] { return share.left() >= table_.work_per_plan(state.family); };
  if (!affordable()) return false;
  table_.sharpen(state);
  if (table_.slower(state.proof.lower_ns)) return false;
  for (const std::vector<int>& cuts : table_.choices().sharper().seeds(state.family))
    if (affordable() && !evaluator_.spent()) table_.try_cuts(state, cuts);
  return true;
}

// The other plans of these families are left out later.
void ListSearch::try_more_stages(const WorkShare& share) {
  Choices& choices = table_.choices();
  if (!table_.more_than_lists() || !table_.wants_more_stages() || choices.distinct_devices().size() > 1) return;
  for (int v = choices.first_virtual() + 1; v <= choices.most_virtual() && !evaluator_.spent(); ++v) {
    std::vector<PlanFamily> families = choices.with_stages_per_device(v);
    std::erase_if(families, [](const PlanFamily& family) { return !family.executable() || family.helping || !family.rows_are_searched(); });
    const double before_s = table_.threshold_s(SearchGoal::best);
    std::size_t tried = 0;
    for (PlanFamily& family : families) {
      if (tried == SearchBudget::kListsOfMoreStages || evaluator_.spent()) break;
      FamilyState state(std::move(family));
      if (try_seeds(state, share)) ++tried;
    }
    if (tried > 0) stages_per_device_ = v;
    if (table_.threshold_s(SearchGoal::best) >= before_s) return;
  }
}

void ListSearch::last() {
  std::vector<std::pair<double, FamilyState*>> promising;
  for (FamilyState& state : table_.states()) {
    if (!tries(state)) continue;
    if (table_.slower(state.proof.lower_ns)) {
      state.proof.solved = true;
      continue;
    }
    const FamilyState* alike = evaluator_.spent() ? nullptr : fastest_alike(state);
    if (alike != nullptr) promising.emplace_back(alike->best_s, &state);
  }
  std::ranges::stable_sort(promising, {}, [](const auto& one) { return one.first; });
  FamilyState* best = nullptr;
  for (std::size_t k = 0; k < promising.size() && k < SearchBudget::kLists && !evaluator_.spent(); ++k) {
    FamilyState& state = *promising[k].second;
    const std::vector<int> cuts = fastest_alike(state)->best_cuts;
    const bool tried = state.seen > 0 && cuts == state.family.seed;
    if (!tried) table_.try_cuts(state, cuts);
    if (best == nullptr || state.best_s < best->best_s) best = &state;
  }
  if (best != nullptr && !best->best_cuts.empty()) local_.improve(*best, SearchBudget::kListMoves);
}

// Returns the fastest family on the same devices with the same micro-batches; null: none was seen.
const FamilyState* ListSearch::fastest_alike(const FamilyState& state) const {
  const FamilyState* fastest = nullptr;
  for (const FamilyState& other : table_.states()) {
    if (other.family.helping || other.best_cuts.empty() || (fastest != nullptr && other.best_s >= fastest->best_s)) continue;
    if (other.family.sizes == state.family.sizes && other.family.devices == state.family.devices) fastest = &other;
  }
  return fastest;
}

}  // namespace mptune::planner
