#include "planner/search/joint/partition_search.h"

#include <algorithm>
#include <limits>

#include "planner/search/search_budget.h"

namespace mptune::planner {

PartitionSearch::PartitionSearch(FamilyTable& table, RatedFamilies& rated, int keep)
    : table_(table), evaluator_(table.evaluator()), solver_(table, rated, keep), keep_(keep) {}

// A family without a plan faster than all others may still hold the best pipeline.
void PartitionSearch::search(SearchGoal goal, WorkShare share) {
  bool unsolved = true;
  for (std::int64_t nodes = SearchBudget::kFirstNodes; unsolved && !share.spent();
       nodes = std::min(nodes * SearchBudget::kNodesGrowth, SearchBudget::kMostNodes))
    unsolved = search_once(goal, nodes, share);
  if (table_.threshold_ns(goal) == table_.threshold_ns(SearchGoal::best)) return;
  for (FamilyState& state : table_.states()) state.proof.exhausted = false;
}

// Returns true if a family that was searched has no proof.
bool PartitionSearch::search_once(SearchGoal goal, std::int64_t nodes, const WorkShare& share) {
  bool unsolved = false;
  int favoured = SearchBudget::kFavouredFamilies;
  table_.sort();
  for (FamilyState& state : table_.states()) {
    if (state.proof.solved || state.proof.exhausted || !state.family.executable() || table_.tried_late(state)) continue;
    state.proof.solved = table_.slower(state.proof.lower_ns);
    if (state.proof.lower_ns > table_.threshold_ns(goal)) continue;
    if (share.spent()) break;
    FamilySolver::Attempt attempt{goal, favoured-- > 0 ? nodes * SearchBudget::kFavouredFactor : nodes, state.proof};
    solver_.solve(state, attempt);
    unsolved |= !attempt.proof.solved && !attempt.proof.exhausted;
    state.proof = attempt.proof;
    state.proof.solved &= table_.threshold_ns(goal) == table_.threshold_ns(SearchGoal::best);
  }
  return unsolved;
}

void PartitionSearch::alternatives() {
  if (keep_ < 2) return;
  table_.sort();
  for (FamilyState& state : table_.states()) {
    if (evaluator_.spent()) return;
    const bool searched = state.proof.solved || state.proof.exhausted;
    const bool slower = state.family.bound_ns > table_.threshold_ns(SearchGoal::alternatives);
    if (!searched || !state.fits || table_.tried_late(state) || slower) continue;
    FamilySolver::Attempt attempt{SearchGoal::alternatives, SearchBudget::kAlternativeNodes, state.proof};
    do {
      attempt.proof.solved = attempt.proof.exhausted = false;
      solver_.solve(state, attempt);
    } while (!attempt.proof.solved && !attempt.proof.exhausted && solver_.memory_chooses(state) &&
             state.listed < SearchBudget::kMostListed && !evaluator_.spent());
  }
}

double PartitionSearch::fastest_beyond_s(const std::string& schedule) const {
  const auto known = evaluator_.beyond().find(schedule);
  return known == evaluator_.beyond().end() ? std::numeric_limits<double>::infinity() : known->second.candidate.prediction.step_s;
}

void PartitionSearch::beyond() {
  const Candidate* fastest = evaluator_.ranking().fastest();
  if (fastest == nullptr || !table_.space().look_beyond) return;
  const double fastest_s = fastest->prediction.step_s;
  int lists = 0;
  const WorkShare share(evaluator_, SearchBudget::kBeyondWorkDivisor);
  for (FamilyState& state : table_.states()) {
    if (share.spent()) return;
    if (state.family.executable() || state.family.seed.empty()) continue;
    const bool is_list = state.family.rows_are_searched();
    if (is_list && ++lists > SearchBudget::kBeyondLists) continue;
    const double longest_s = std::min(fastest_s, fastest_beyond_s(state.family.schedule)) - 1e-9;
    if (state.proof.lower_ns > whole_ns(longest_s)) continue;
    table_.try_cuts(state, state.family.seed);
    if (!is_list) solver_.solve_beyond(state, longest_s);
  }
}

}  // namespace mptune::planner
