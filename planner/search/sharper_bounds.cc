#include <algorithm>
#include <cstdint>
#include <vector>

#include "planner/search/families.h"
#include "planner/search/joint_search.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr int kMostSharpened = 128;                 // families with more stages are not sharpened: it takes long
constexpr double kEvenness[] = {0.75, 0.85, 0.65};  // evenness of the stages in cuts that are tried, the likeliest first
constexpr std::int64_t kStepsPerSharpening = 16;    // steps of finding a bound that cost as much as a simulated action

}  // namespace

std::vector<std::vector<int>> Choices::looped_stages(int virtual_stages) const {
  std::vector<std::vector<int>> stages;
  for (int v = 0; v < virtual_stages; ++v)
    for (int device = 0; device < static_cast<int>(indices_.size()); ++device) stages.push_back({device});
  return stages;
}

std::vector<std::vector<int>> Choices::in_profile(std::vector<std::vector<int>> stages) const {
  for (std::vector<int>& stage : stages)
    for (int& device : stage) device = indices_[as_index(device)];
  return stages;
}

void Choices::sharpen(PlanFamily& family) {
  const auto m = static_cast<int>(family.sizes.size());
  if (family.helping || family.replicated() || m < 2 || family.stages() > kMostSharpened) return;
  const auto [known, is_new] = sharp_.try_emplace({family.devices, m, family.splits});
  if (is_new) known->second = bounds_.of_any_order(in_profile(family.devices), family.sizes, family.splits);
  family.bound_ns = std::max(family.bound_ns, known->second);
}

const std::vector<std::vector<int>>& Choices::seeds(const PlanFamily& family) {
  const auto [known, is_new] = seeds_.try_emplace({family.devices, static_cast<int>(family.sizes.size()), family.splits});
  if (!is_new || family.seed.empty()) return known->second;
  const bool several = family.virtual_stages > 1 && !family.helping && family.stages() <= kMostSharpened;
  for (std::size_t i = 0; several && i < std::size(kEvenness); ++i) {
    std::vector<int> cuts = bounds_.suited_cuts(in_profile(family.devices), family.sizes, family.splits, kEvenness[i], family.seed);
    if (std::ranges::count(known->second, cuts) == 0) known->second.push_back(std::move(cuts));
  }
  if (std::ranges::count(known->second, family.seed) == 0) known->second.push_back(family.seed);
  return known->second;
}

void Choices::sharpen_stages_per_device(int virtual_stages, std::int64_t step_ns) {
  const std::vector<std::vector<int>> stages = looped_stages(virtual_stages);
  const bool alike = distinct_devices().size() == 1;
  for (const int m : counts_) {
    if (!alike || m < 2 || static_cast<int>(stages.size()) > kMostSharpened || schedules_for(m, virtual_stages).empty()) continue;
    const std::vector<int> sizes = split_evenly(space_.batch, m);
    if (bounds_.of(in_profile(stages), sizes, true).step_ns > step_ns) continue;
    const auto [known, is_new] = sharp_.try_emplace({stages, m, true});
    if (is_new) known->second = bounds_.of_any_order(in_profile(stages), sizes, true);
  }
}

// Where devices differ, the bound holds for all placements.
bool Choices::leave_out_stages_per_device(int virtual_stages) {
  const std::vector<std::vector<int>> stages = looped_stages(virtual_stages);
  const bool alike = distinct_devices().size() == 1;
  bool any = false;
  for (const int m : counts_) {
    const bool helped = !helping_schedules_for(m, virtual_stages).empty();
    if (!helped && schedules_for(m, virtual_stages).empty()) continue;
    any = true;
    const std::vector<int> sizes = split_evenly(space_.batch, m);
    const bool one_bound = helped || !alike;
    std::int64_t bound_ns = bounds_.of(one_bound ? std::vector<std::vector<int>>{indices_} : in_profile(stages), sizes, true).step_ns;
    const auto known = sharp_.find({stages, m, true});
    if (!one_bound && known != sharp_.end()) bound_ns = std::max(bound_ns, known->second);
    unlisted_bound_ns_ = std::min(unlisted_bound_ns_, bound_ns);
  }
  if (any) leave_out(1, static_cast<int>(stages.size()));
  return any;
}

void JointSearch::sharpen(FamilyState& state) {
  if (state.sharp) return;
  state.sharp = true;
  choices_.sharpen(state.family);
  const std::int64_t stages = state.family.stages();
  evaluator_.worked(stages * stages * stages / kStepsPerSharpening, 0);
  state.proof.lower_ns = std::max(state.proof.lower_ns, state.family.bound_ns);
}

// Sharpens whatever is not excluded yet. Numbers of stages per device that are not listed may have to be left out later, when there is no
// time.
void JointSearch::sharpen_all() {
  for (FamilyState& state : states_)
    if (state.family.executable() && state.proof.lower_ns <= threshold_ns(Goal::best) && !evaluator_.spent()) sharpen(state);
  for (int v = choices_.first_virtual() + 1; v <= choices_.most_virtual() && !evaluator_.spent(); ++v)
    choices_.sharpen_stages_per_device(v, threshold_ns(Goal::best));
  std::ranges::stable_sort(states_, {}, [](const FamilyState& state) { return state.proof.lower_ns; });
}

}  // namespace mptune::planner
