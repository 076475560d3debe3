#include "planner/search/joint/joint_search.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "planner/search/joint/one_stage_search.h"
#include "planner/search/joint/work_share.h"
#include "planner/search/search_budget.h"

namespace mptune::planner {

JointSearch::JointSearch(const SearchSpace& space, const CostModel& cost, std::vector<std::int64_t> caps, int keep, RatedFamilies& rated)
    : table_(space, cost, std::move(caps), keep),
      partitions_(table_, rated, keep),
      local_(table_),
      lists_(table_, local_),
      more_stages_(table_, local_) {}

void JointSearch::one_stage() {
  OneStageSearch(table_.space(), table_.cost(), table_.caps(), table_.choices(), table_.evaluator()).run();
}

void JointSearch::pipelines() {
  table_.list();
  if (!table_.space().cuts.empty()) return try_given_cuts();
  lists_.first();
  try_seeds();
  table_.sharpen_all();
  const bool any_late = std::ranges::any_of(
      table_.states(), [this](const FamilyState& state) { return state.family.executable() && table_.tried_late(state); });
  const WorkShare share(table_.evaluator(), any_late ? SearchBudget::kProofWorkDivisor : 1);
  partitions_.search(SearchGoal::fastest, share);
  partitions_.search(SearchGoal::best, share);
  local_.helping();
  more_stages_.search(lists_.stages_per_device());
  table_.sort();
  lists_.last();
}

void JointSearch::try_given_cuts() {
  for (FamilyState& state : table_.states()) state.family.plans = 0;
  for (const std::vector<int>& cuts : table_.space().cuts) {
    for (FamilyState& state : table_.states()) {
      if (static_cast<int>(cuts.size()) + 1 != state.family.stages()) continue;
      ++state.family.plans;
      if (!table_.evaluator().spent()) table_.try_cuts(state, cuts);
    }
  }
  for (FamilyState& state : table_.states()) state.proof.solved = state.seen == state.family.plans;
}

// Evaluates a promising plan of each family first: once good plans are known, bounds exclude most of the space.
void JointSearch::try_seeds() {
  int tried = 0;
  for (FamilyState& state : table_.states()) {
    const bool open = state.family.executable() && !table_.tried_late(state) && !state.family.seed.empty();
    if (!open || table_.slower(state.proof.lower_ns)) continue;
    if (tried++ == SearchBudget::kSeeds) return;
    for (const std::vector<int>& cuts : table_.choices().sharper().seeds(state.family)) {
      if (table_.evaluator().spent()) return;
      table_.try_cuts(state, cuts);
    }
  }
}

void JointSearch::alternatives() {
  if (table_.space().cuts.empty()) partitions_.alternatives();
  local_.help_ranked();
}

void JointSearch::beyond() {
  if (table_.space().cuts.empty()) partitions_.beyond();
}

double JointSearch::lower_bound_s() const {
  const Choices& choices = table_.choices();
  double least = std::numeric_limits<double>::infinity();
  if (const Candidate* fastest = table_.evaluator().ranking().fastest()) least = fastest->prediction.step_s;
  for (const FamilyState& state : table_.states())
    if (state.family.executable() && !state.proof.solved) least = std::min(least, static_cast<double>(state.proof.lower_ns) * 1e-9);
  if (choices.unlisted_plans() > 0) least = std::min(least, static_cast<double>(choices.unlisted_bound_ns()) * 1e-9);
  return least;
}

void JointSearch::count_rejected() {
  Evaluator& evaluator = table_.evaluator();
  for (const FamilyState& state : table_.states()) {
    const auto slower = [&] { return table_.slower(state.family.bound_ns); };
    const std::int64_t unseen = std::max<std::int64_t>(0, state.family.plans - state.seen);
    if (state.family.rows_decide && !slower()) evaluator.reject(RejectedAs::rows_decide, unseen);
    if (!state.family.executable()) continue;
    evaluator.reject(!state.fits                      ? RejectedAs::too_large
                     : state.proof.solved || slower() ? RejectedAs::too_slow
                     : state.proof.exhausted          ? RejectedAs::unproved
                                                      : RejectedAs::not_reached,
                     unseen);
  }
  evaluator.reject(RejectedAs::not_reached, table_.choices().unlisted_plans());
}

}  // namespace mptune::planner
