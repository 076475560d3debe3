#include "planner/published/load_bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mptune::planner {

std::int64_t saturated_product(int count, std::int64_t load_ns) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 2;
  return count > 0 && load_ns > kMost / count ? kMost : count * load_ns;
}

LoadBounds::LoadBounds(const LoadProblem& problem) {
  std::int64_t least = 0;
  for (const LoadGroup& group : problem.groups) {
    const double spared = static_cast<double>(group.device_ns) / static_cast<double>(group.host_ns);
    shares_.push_back({group.host_ns == 0 ? std::numeric_limits<double>::infinity() : spared, group.host_ns, group.device_ns});
    const bool on_device = group.device_can && problem.devices > 0;
    least = std::max(least, !on_device ? group.host_ns : problem.hosts == 0 ? group.device_ns : std::min(group.host_ns, group.device_ns));
    upper_bound_ns_ += std::max(group.host_ns, group.device_ns);
  }
  for (const LoadNet& net : problem.nets) upper_bound_ns_ += net.copy_ns;
  std::ranges::stable_sort(shares_, std::greater{}, &Share::spared);
  for (std::size_t i = 1; i < shares_.size(); ++i) {
    shares_[i].host_ns += shares_[i - 1].host_ns;
    shares_[i].device_ns += shares_[i - 1].device_ns;
  }
  std::int64_t high = std::max(least, upper_bound_ns_);
  lower_bound_ns_ = least;
  while (lower_bound_ns_ < high) {
    const std::int64_t middle = lower_bound_ns_ + (high - lower_bound_ns_) / 2;
    if (enough(problem, middle))
      high = middle;
    else
      lower_bound_ns_ = middle + 1;
  }
}

bool LoadBounds::enough(const LoadProblem& problem, std::int64_t load_ns) const {
  return problem.device_ns() - hosted_ns(problem.hosts, load_ns) <= saturated_product(problem.devices, load_ns);
}

std::int64_t LoadBounds::hosted_ns(int hosts, std::int64_t load_ns) const {
  if (hosts == 0) return 0;
  const std::int64_t host_ns = saturated_product(hosts, load_ns);
  const auto after = std::ranges::upper_bound(shares_, host_ns, {}, &Share::host_ns);
  const Share before = after == shares_.begin() ? Share{} : *(after - 1);
  if (after == shares_.end()) return before.device_ns;
  const double part = static_cast<double>(host_ns - before.host_ns) / static_cast<double>(after->host_ns - before.host_ns);
  return before.device_ns + static_cast<std::int64_t>(std::ceil(part * static_cast<double>(after->device_ns - before.device_ns))) + 1;
}

}  // namespace mptune::planner
