#include "planner/cost/curve_points.h"

#include <algorithm>
#include <cmath>

namespace mptune::planner {

std::vector<const LayerCost*> costs_by_size(const LayerCosts& costs) {
  std::vector<const LayerCost*> by_size;
  for (const LayerCost& cost : costs.by_samples) by_size.push_back(&cost);
  std::sort(by_size.begin(), by_size.end(), [](const LayerCost* a, const LayerCost* b) { return a->samples < b->samples; });
  return by_size;
}

bool is_usable(const LayerCost& cost) {
  return cost.samples >= 1 && !cost.forward.empty() && !cost.backward.empty();
}

std::vector<const LayerCost*> usable_costs(const std::vector<const LayerCost*>& by_size) {
  std::vector<const LayerCost*> usable;
  for (const LayerCost* cost : by_size)
    if (is_usable(*cost) && (usable.empty() || usable.back()->samples != cost->samples)) usable.push_back(cost);
  return usable;
}

// An extrapolated line may reach zero, which is no plausible value.
double interpolated(double low, double high, double share, double proportional) {
  const double value = low + (high - low) * share;
  return share < 0 ? std::max(value, proportional) : share > 1 ? std::max(value, high) : value;
}

double in_whole_ns(double seconds) {
  return std::round(seconds * 1e9) / 1e9;
}

std::int64_t whole_bytes(double bytes) {
  return static_cast<std::int64_t>(std::ceil(bytes));
}

}  // namespace mptune::planner
