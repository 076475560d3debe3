#include "profiler/measure/size_choice.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

namespace mptune::profiler {
namespace {

/// Returns the neighbours in `taken`, with sizes between them, that are furthest apart by ratio; the upper ones of equal pairs.
std::pair<int, int> widest_gap(const std::vector<int>& sizes, const std::set<int>& taken) {
  std::pair<int, int> widest{};
  double most = 0;
  for (auto upper = std::next(taken.begin()); upper != taken.end(); ++upper) {
    const int low = *std::prev(upper), high = *upper;
    const bool has_more = std::ranges::upper_bound(sizes, low) != std::ranges::lower_bound(sizes, high);
    const double ratio = static_cast<double>(high) / low;
    if (has_more && ratio >= most) {
      widest = {low, high};
      most = ratio;
    }
  }
  return widest;
}

int middle_of(const std::vector<int>& sizes, std::pair<int, int> gap) {
  const double middle = std::sqrt(static_cast<double>(gap.first) * gap.second);
  const auto off = [&](int size) { return std::abs(std::log(size / middle)); };
  return std::ranges::min(std::vector<int>(std::ranges::upper_bound(sizes, gap.first), std::ranges::lower_bound(sizes, gap.second)), {},
                          off);
}

}  // namespace

std::vector<int> by_worth(const std::vector<int>& sizes) {
  if (sizes.size() < 3) return sizes;
  std::vector<int> order{sizes[0], sizes[1], sizes.back()};
  std::set<int> taken(order.begin(), order.end());
  if (taken.size() < order.size()) order.pop_back();
  while (order.size() < sizes.size()) {
    order.push_back(middle_of(sizes, widest_gap(sizes, taken)));
    taken.insert(order.back());
  }
  return order;
}

}  // namespace mptune::profiler
