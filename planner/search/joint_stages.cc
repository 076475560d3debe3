#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "planner/search/joint_search.h"

namespace mptune::planner {
namespace {

// Numbers of stages per device without a faster plan, after which no more are tried.
constexpr int kFailures = 2;
constexpr std::size_t kListsOfMoreStages = 3;  // families of one number of stages per device

}  // namespace

FamilyState JointSearch::state_of(PlanFamily family) {
  FamilyState state;
  state.proof.lower_ns = family.bound_ns;
  state.best_s = std::numeric_limits<double>::infinity();
  state.family = std::move(family);
  return state;
}

void JointSearch::more_stages() {
  if (only_replicated_.value_or(false) || choices_.most_virtual() == 0) return;
  const auto listed = [](const FamilyState& state) { return state.family.executable() && !state.family.replicated(); };
  for (const FamilyState& state : states_)
    if (listed(state)) stages_per_device_.searched = std::max(stages_per_device_.searched, state.family.virtual_stages);
  stages_per_device_.possible = stages_per_device_.searched;
  int failed = 0;
  for (int v = choices_.first_virtual() + 1; v <= choices_.most_virtual(); ++v) {
    std::vector<PlanFamily> families = choices_.with_stages_per_device(v);
    if (evaluator_.spent() || failed == kFailures ||
        std::ranges::none_of(families, [&](const PlanFamily& f) { return tried_one_by_one(f); }))
      return leave_out_stages(v, failed == kFailures);
    const double before_s = threshold_s(Goal::best);
    const std::size_t known = states_.size();
    for (PlanFamily& family : families) states_.push_back(state_of(std::move(family)));
    std::vector<FamilyState*> added;
    for (std::size_t k = known; k < states_.size(); ++k) {
      states_[k].further = true;
      if (states_[k].proof.lower_ns <= threshold_ns(Goal::best) && !evaluator_.stopped()) sharpen(states_[k]);
      if (tried_one_by_one(states_[k].family)) added.push_back(&states_[k]);
    }
    try_one_by_one(added);
    stages_per_device_.searched = stages_per_device_.possible = v;
    failed = threshold_s(Goal::best) < before_s ? 0 : failed + 1;
  }
}

// The other plans of these families are left out later.
void JointSearch::first_lists_of_more_stages(std::int64_t least_left) {
  if (!more_than_lists_ || only_replicated_.value_or(false) || choices_.distinct_devices().size() > 1) return;
  for (int v = choices_.first_virtual() + 1; v <= choices_.most_virtual() && !evaluator_.spent(); ++v) {
    std::vector<PlanFamily> families = choices_.with_stages_per_device(v);
    std::erase_if(families,
                  [this](const PlanFamily& family) { return !family.executable() || family.helping || tried_one_by_one(family); });
    const double before_s = threshold_s(Goal::best);
    std::size_t tried = 0;
    for (PlanFamily& family : families) {
      if (tried == kListsOfMoreStages || evaluator_.spent()) break;
      FamilyState state = state_of(std::move(family));
      tried += try_seeds_of_list(state, least_left) ? 1 : 0;
    }
    if (tried > 0) stages_per_device_.searched = v;
    if (threshold_s(Goal::best) >= before_s) return;
  }
}

// Plans that are slower by their bound are proved so, the rest is counted. There is no time for bounds once the search was asked to stop.
void JointSearch::leave_out_stages(int virtual_stages, bool nothing_faster) {
  using End = StagesPerDevice::End;
  for (int v = virtual_stages; v <= choices_.most_virtual(); ++v) {
    if (evaluator_.stopped()) {
      if (!choices_.leave_out_stages_per_device(v)) continue;
      stages_per_device_.possible = v;
      stages_per_device_.end = End::not_reached;
      continue;
    }
    std::vector<PlanFamily> families = choices_.with_stages_per_device(v);
    std::erase_if(families, [](const PlanFamily& family) { return !family.executable(); });
    if (families.empty()) continue;
    stages_per_device_.possible = v;
    if (stages_per_device_.end == End::all) stages_per_device_.end = End::slower;
    for (PlanFamily& family : families)
      if (family.bound_ns <= threshold_ns(Goal::best) && !evaluator_.stopped()) choices_.sharpen(family);
    std::erase_if(families, [this](const PlanFamily& family) { return family.bound_ns > threshold_ns(Goal::best); });
    if (!families.empty()) stages_per_device_.end = nothing_faster ? End::nothing_faster : End::not_reached;
    choices_.leave_out(families);
  }
}

}  // namespace mptune::planner
