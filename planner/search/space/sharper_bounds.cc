#include "planner/search/space/sharper_bounds.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "planner/search/search_budget.h"

namespace mptune::planner {

std::int64_t SharperBounds::bound_ns(const std::vector<std::vector<int>>& stages, const std::vector<int>& sizes, bool splits) {
  const auto [known, is_new] = known_.try_emplace({stages, static_cast<int>(sizes.size()), splits});
  if (is_new) known->second = bounds_.of_any_order(in_profile(stages, indices_), sizes, splits);
  return known->second;
}

void SharperBounds::sharpen(PlanFamily& family) {
  if (family.helping || family.replicated() || family.sizes.size() < 2 || family.stages() > SearchBudget::kMostSharpened) return;
  family.bound_ns = std::max(family.bound_ns, bound_ns(family.devices, family.sizes, family.splits));
}

void SharperBounds::find(const std::vector<std::vector<int>>& stages, const std::vector<int>& sizes) {
  (void)bound_ns(stages, sizes, true);
}

std::int64_t SharperBounds::known_ns(const std::vector<std::vector<int>>& stages, int m) const {
  const auto known = known_.find({stages, m, true});
  return known == known_.end() ? 0 : known->second;
}

const std::vector<std::vector<int>>& SharperBounds::seeds(const PlanFamily& family) {
  const auto [entry, is_new] = seeds_.try_emplace({family.devices, static_cast<int>(family.sizes.size()), family.splits});
  std::vector<std::vector<int>>& seeds = entry->second;
  if (!is_new || family.seed.empty()) return seeds;
  const auto add = [&](std::vector<int> cuts) {
    if (std::ranges::count(seeds, cuts) == 0) seeds.push_back(std::move(cuts));
  };
  const bool several = family.virtual_stages > 1 && !family.helping && family.stages() <= SearchBudget::kMostSharpened;
  for (std::size_t i = 0; several && i < std::size(SearchBudget::kEvenness); ++i)
    add(bounds_.suited_cuts(in_profile(family.devices, indices_), family.sizes, family.splits, SearchBudget::kEvenness[i], family.seed));
  add(family.seed);
  return seeds;
}

}  // namespace mptune::planner
