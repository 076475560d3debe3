#include "planner/search/joint/more_stages.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "planner/search/search_budget.h"

namespace mptune::planner {

MoreStages::MoreStages(FamilyTable& table, LocalSearch& local) : table_(table), evaluator_(table.evaluator()), local_(local) {}

void MoreStages::search(int searched) {
  if (!table_.wants_more_stages()) return;
  Choices& choices = table_.choices();
  tried_.searched = tried_.possible = std::max(searched, most_listed());
  int failed = 0;
  for (int v = choices.first_virtual() + 1; v <= choices.most_virtual(); ++v) {
    std::vector<PlanFamily> families = choices.with_stages_per_device(v);
    if (evaluator_.spent() || failed == SearchBudget::kMoreStagesFailures || std::ranges::none_of(families, LocalSearch::takes))
      return leave_out(v, failed == SearchBudget::kMoreStagesFailures);
    const double before_s = table_.threshold_s(SearchGoal::best);
    try_families(std::move(families));
    tried_.searched = tried_.possible = v;
    failed = table_.threshold_s(SearchGoal::best) < before_s ? 0 : failed + 1;
  }
}

int MoreStages::most_listed() const {
  int most = 0;
  for (const FamilyState& state : table_.states())
    if (state.family.executable() && !state.family.replicated()) most = std::max(most, state.family.virtual_stages);
  return most;
}

void MoreStages::try_families(std::vector<PlanFamily> families) {
  std::vector<FamilyState*> taken;
  for (FamilyState* state : table_.add(std::move(families))) {
    if (!table_.slower(state->proof.lower_ns) && !evaluator_.stopped()) table_.sharpen(*state);
    if (LocalSearch::takes(state->family)) taken.push_back(state);
  }
  local_.one_by_one(std::move(taken));
}

// There is no time for bounds once the search was asked to stop.
void MoreStages::leave_out(int virtual_stages, bool nothing_faster) {
  for (int v = virtual_stages; v <= table_.choices().most_virtual(); ++v) {
    if (!evaluator_.stopped()) {
      leave_out_slower(v, nothing_faster);
    } else if (table_.choices().leave_out_stages_per_device(v)) {
      tried_.possible = v;
      tried_.end = StagesPerDevice::End::not_reached;
    }
  }
}

// Plans that are slower by their bound are proved so, the rest is counted.
void MoreStages::leave_out_slower(int virtual_stages, bool nothing_faster) {
  using End = StagesPerDevice::End;
  Choices& choices = table_.choices();
  std::vector<PlanFamily> families = choices.with_stages_per_device(virtual_stages);
  std::erase_if(families, [](const PlanFamily& family) { return !family.executable(); });
  if (families.empty()) return;
  tried_.possible = virtual_stages;
  if (tried_.end == End::all) tried_.end = End::slower;
  for (PlanFamily& family : families)
    if (!table_.slower(family.bound_ns) && !evaluator_.stopped()) choices.sharper().sharpen(family);
  std::erase_if(families, [this](const PlanFamily& family) { return table_.slower(family.bound_ns); });
  if (!families.empty()) tried_.end = nothing_faster ? End::nothing_faster : End::not_reached;
  choices.leave_out(families);
}

}  // namespace mptune::planner
