#include "planner/cost/holding.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "profiler/base/index.h"

namespace mptune::planner {

void Holding::add(const Stretch& stretch) {
  if (stretch.bytes == 0 || (stretch.last < stretch.first && stretch.made < 0)) return;
  change_[as_index(stretch.first)] += stretch.bytes;
  change_[as_index(stretch.last) + 1] -= stretch.bytes;
  stretches_.push_back(stretch);
}

std::int64_t Holding::most() const {
  std::int64_t now = 0;
  std::int64_t most = 0;
  for (const std::int64_t change : change_) most = std::max(most, now += change);
  return most;
}

std::vector<std::int64_t> Holding::during() const {
  std::vector<std::int64_t> held(change_.begin(), change_.end() - 1);
  std::partial_sum(held.begin(), held.end(), held.begin());
  return held;
}

std::vector<std::int64_t> Holding::after() const {
  std::vector<std::int64_t> change(change_.size(), 0);
  for (const Stretch& stretch : stretches_) {
    const bool stays = stretch.made >= 0;
    change[as_index(stays ? stretch.made : stretch.first)] += stretch.bytes;
    change[as_index(stretch.last) + (stays ? 1 : 0)] -= stretch.bytes;
  }
  change.pop_back();
  std::partial_sum(change.begin(), change.end(), change.begin());
  return change;
}

std::vector<Holding::Stretch> Holding::fullest() const {
  const std::int64_t most = this->most();
  std::int64_t now = 0;
  int action = 0;
  while ((now += change_[as_index(action)]) < most) ++action;
  std::vector<Stretch> held;
  std::ranges::copy_if(stretches_, std::back_inserter(held), [=](const Stretch& s) { return s.first <= action && action <= s.last; });
  return held;
}

}  // namespace mptune::planner
