#include "planner/partition/balance_bound.h"

#include <algorithm>
#include <utility>

#include "planner/partition/path_bounds.h"

namespace mptune::planner {

BalanceBound::BalanceBound(const Prices& prices, std::vector<Path> rows)
    : rows_(std::move(rows)), own_(rows_.size(), RangeSum<std::int64_t>(prices.layers())), passing_(own_), ends_(rows_.size()) {
  for (int slot = 0; slot < prices.slots(); ++slot) {
    const auto stage = as_index(prices.stage(slot));
    const auto count = [&](std::size_t row) { return rows_[row].count[as_index(slot)]; };
    if (count(stage) > 0) own_[stage].add(prices, slot, count(stage));
    int least = stage + 1 < rows_.size() ? count(stage + 1) : 0;
    for (std::size_t row = stage + 1; row < rows_.size(); ++row) least = std::min(least, count(row));
    if (least > 0) passing_[stage].add(prices, slot, least);
  }
}

void BalanceBound::refresh(const Windows& windows) {
  const auto width = as_index(windows.layers()) + 1;
  rest_.assign(rows_.size() + 1, std::vector<std::int64_t>(width, PathBounds::kFar));
  rest_.back().back() = 0;
  for (int s = windows.stages(); s-- > 0;) {
    const auto at = as_index(s);
    ends_[at] = ends_of(windows, s);
    for (const int first : windows.begins[at]) rest_[at][as_index(first)] = best_end(windows, s, first).ns;
  }
}

BalanceBound::Ends BalanceBound::ends_of(const Windows& windows, int stage) const {
  const auto at = as_index(stage);
  const bool is_last = at + 1 == own_.size();
  const std::vector<std::int64_t> none(as_index(windows.layers()) + 1, PathBounds::kNoWay);
  Ends ends{none, none, none};
  for (const int last : windows.begins[at + 1]) {
    const std::int64_t rest = rest_[at + 1][as_index(last)];
    if (rest >= PathBounds::kFar) continue;
    ends.behind[as_index(last)] = is_last ? 0 : rest + passing_[at].upto(last);
    ends.least_own[as_index(last)] = own_[at].upto(last);
  }
  ends.least_behind = ends.behind;
  for (std::size_t last = 1; last < none.size(); ++last)
    ends.least_behind[last] = std::min(ends.least_behind[last], ends.least_behind[last - 1]);
  for (std::size_t last = none.size() - 1; last-- > 0;) ends.least_own[last] = std::min(ends.least_own[last], ends.least_own[last + 1]);
  return ends;
}

// Of two equal ends, the first is kept.
void BalanceBound::try_end(int stage, int first, int last, End& best) const {
  const auto at = as_index(stage);
  const std::int64_t rest = rest_[at + 1][as_index(last)];
  if (ends_[at].behind[as_index(last)] >= PathBounds::kNoWay) return;
  const std::int64_t own = own_[at].at(first, last);
  const std::int64_t ns = at + 1 == own_.size() ? own : std::max(own, passing(stage, first, last) + rest);
  if (ns < best.ns || (ns == best.ns && last < best.last)) best = {ns, last};
}

// Open ranges only add to the values in Ends, so those are lower bounds.
BalanceBound::End BalanceBound::best_end(const Windows& windows, int stage, int first) const {
  const auto at = as_index(stage);
  const auto [nearest, furthest] = windows.ends(stage, first);
  const Ends& ends = ends_[at];
  const auto least_own = [&](int last) { return ends.least_own[as_index(last)] - own_[at].before(first); };
  const auto least_behind = [&](int last) {
    return ends.least_behind[as_index(last)] - (at + 1 == own_.size() ? 0 : passing_[at].before(first));
  };
  int meet = nearest;
  for (int beyond = furthest + 1; meet < beyond;) {
    const int middle = meet + (beyond - meet) / 2;
    if (least_own(middle) >= least_behind(middle))
      beyond = middle;
    else
      meet = middle + 1;
  }
  End best{PathBounds::kFar, -1};
  for (int last = meet; last <= furthest && least_own(last) < best.ns; ++last) try_end(stage, first, last, best);
  for (int last = std::min(meet, furthest + 1); --last >= nearest && least_behind(last) <= best.ns;) try_end(stage, first, last, best);
  return best;
}

}  // namespace mptune::planner
