#include "planner/search/joint/family_table.h"

#include <algorithm>
#include <cmath>

#include "planner/schedule/schedule_info.h"
#include "planner/simulate/schedule_costs.h"

namespace mptune::planner {
namespace {

std::vector<int> cuts_of(const Plan& plan) {
  std::vector<int> cuts;
  for (std::size_t s = 1; s < plan.stages.size(); ++s) cuts.push_back(plan.stages[s].first_layer);
  return cuts;
}

}  // namespace

std::int64_t whole_ns(double seconds) {
  return std::isfinite(seconds) ? std::llround(seconds * 1e9) : std::numeric_limits<std::int64_t>::max();
}

FamilyTable::FamilyTable(const SearchSpace& space, const CostModel& cost, std::vector<std::int64_t> caps, int keep)
    : space_(space), cost_(cost), caps_(std::move(caps)), choices_(space, cost, caps_), evaluator_(space, cost, keep) {}

void FamilyTable::list() {
  if (!states_.empty()) return;
  for (PlanFamily& family : choices_.pipelines()) {
    if (only_replicated_ && family.replicated() != *only_replicated_) continue;
    more_than_lists_ |= family.executable() && !family.helping && !family.rows_are_searched();
    states_.emplace_back(std::move(family));
  }
}

std::vector<FamilyState*> FamilyTable::add(std::vector<PlanFamily> families) {
  const std::size_t known = states_.size();
  for (PlanFamily& family : families) states_.emplace_back(std::move(family)).more_stages = true;
  std::vector<FamilyState*> added;
  for (std::size_t k = known; k < states_.size(); ++k) added.push_back(&states_[k]);
  return added;
}

void FamilyTable::sort() {
  std::ranges::stable_sort(states_, {}, [](const FamilyState& state) { return state.proof.lower_ns; });
}

bool FamilyTable::tried_late(const FamilyState& state) const {
  return state.family.helping || state.more_stages || (more_than_lists_ && state.family.rows_are_searched());
}

double FamilyTable::threshold_s(SearchGoal goal) const {
  const Ranking& ranking = evaluator_.ranking();
  if (goal == SearchGoal::alternatives) return ranking.threshold();
  const Candidate* fastest = goal == SearchGoal::fastest ? ranking.fastest() : ranking.fastest_of_several_stages();
  return fastest == nullptr ? space_.longest_s : std::min(space_.longest_s, fastest->prediction.step_s);
}

std::int64_t FamilyTable::threshold_ns(SearchGoal goal) const {
  return whole_ns(threshold_s(goal));
}

// Rows that depend on costs take longer to make than to simulate.
void FamilyTable::make_rows(const PlanFamily& family, const std::vector<std::int64_t>& caps, Plan& plan) {
  schedule_plan(plan, family.schedule, cost_, caps);
  evaluator_.worked((schedule_info(family.schedule).relative_cost - 1) * 2 * plan.num_stages() * plan.num_microbatches(), 0);
}

void FamilyTable::try_cuts(FamilyState& state, const std::vector<int>& cuts) {
  Plan plan = state.family.plan(space_, cuts, cost_.layers());
  choices_.set_recompute(plan);
  make_rows(state.family, state.family.caps(caps_), plan);
  if (state.family.helping) evaluator_.worked(std::int64_t{cost_.layers()} * plan.num_microbatches(), 0);
  try_plan(state, std::move(plan));
}

void FamilyTable::try_plan(FamilyState& state, Plan plan) {
  const std::vector<int> cuts = cuts_of(plan);
  note(state, evaluator_.evaluate(Parallelism::pipeline, std::move(plan), state.family.caps(caps_)), cuts);
}

void FamilyTable::try_remade(FamilyState& state, Plan plan) {
  const std::vector<std::int64_t> caps = state.family.caps(caps_);
  const std::vector<int> cuts = cuts_of(plan);
  double step_s = std::numeric_limits<double>::infinity();
  Plan remade = plan;
  make_rows(state.family, caps, remade);
  if (remade.actions != plan.actions) step_s = evaluator_.evaluate(Parallelism::pipeline, std::move(remade), caps);
  note(state, std::min(step_s, evaluator_.evaluate(Parallelism::pipeline, std::move(plan), caps)), cuts);
}

void FamilyTable::note(FamilyState& state, double step_s, const std::vector<int>& cuts) {
  if (step_s < state.best_s) {
    state.best_s = step_s;
    state.best_cuts = cuts;
  }
  ++state.seen;
}

std::int64_t FamilyTable::work_per_plan(const PlanFamily& family) const {
  return std::ssize(family.sizes) * (2 * family.stages() * schedule_info(family.schedule).relative_cost + cost_.layers());
}

void FamilyTable::sharpen(FamilyState& state) {
  if (state.sharp) return;
  state.sharp = true;
  choices_.sharper().sharpen(state.family);
  const std::int64_t stages = state.family.stages();
  evaluator_.worked(stages * stages * stages / SearchBudget::kStepsPerSharpening, 0);
  state.proof.lower_ns = std::max(state.proof.lower_ns, state.family.bound_ns);
}

// Numbers of stages per device that are not listed may have to be left out later, when there is no time.
void FamilyTable::sharpen_all() {
  for (FamilyState& state : states_)
    if (state.family.executable() && !slower(state.proof.lower_ns) && !evaluator_.spent()) sharpen(state);
  for (int v = choices_.first_virtual() + 1; v <= choices_.most_virtual() && !evaluator_.spent(); ++v)
    choices_.sharpen_stages_per_device(v, threshold_ns(SearchGoal::best));
  sort();
}

}  // namespace mptune::planner
