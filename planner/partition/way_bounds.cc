#include "mptune/planner/partition/way_bounds.h"

#include <algorithm>

namespace mptune {
namespace {

std::vector<std::vector<std::int64_t>> far_from_end(int stages, int layers) {
  const auto width = static_cast<std::size_t>(layers) + 1;
  std::vector<std::vector<std::int64_t>> rest(static_cast<std::size_t>(stages) + 1, std::vector<std::int64_t>(width, WayBounds::kFar));
  rest.back().back() = 0;
  return rest;
}

}  // namespace

bool Windows::empty() const {
  return std::any_of(begins.begin(), begins.end(), [](const std::vector<int>& layers) { return layers.empty(); });
}

int WayBounds::add(const Way& way, const Windows& windows) {
  const auto known = std::find_if(ways_.begin(), ways_.end(), [&](const Bounded& other) { return other.way == way; });
  if (known != ways_.end()) return static_cast<int>(known - ways_.begin());
  Bounded bounded;
  bounded.way = way;
  bounded.terms.resize(static_cast<std::size_t>(windows.stages()));
  for (int slot = 0; slot < static_cast<int>(way.count.size()); ++slot) {
    const std::int64_t count = way.count[static_cast<std::size_t>(slot)];
    if (count > 0) bounded.terms[static_cast<std::size_t>(prices_.stage(slot))].push_back({slot, count});
  }
  find_rest(windows, bounded);
  ways_.push_back(std::move(bounded));
  return ways() - 1;
}

void WayBounds::find_rest(const Windows& windows, Bounded& way) const {
  way.rest = far_from_end(windows.stages(), prices_.layers());
  for (int s = windows.stages(); s-- > 0;) {
    const auto at = static_cast<std::size_t>(s);
    for (const int first : windows.begins[at]) {
      std::int64_t least = WayBounds::kFar;
      for (const int last : windows.begins[at + 1]) {
        const std::int64_t behind = way.rest[at + 1][static_cast<std::size_t>(last)];
        if (behind >= least || !windows.allows(s, first, last)) continue;
        std::int64_t ns = behind;
        for (const Term& term : way.terms[at]) ns += term.count * prices_.ns(term.slot, first, last);
        least = std::min(least, ns);
      }
      way.rest[at][static_cast<std::size_t>(first)] = least;
    }
  }
}

void WayBounds::refresh(const Windows& windows) {
  for (Bounded& way : ways_) find_rest(windows, way);
}

bool WayBounds::narrow(std::int64_t limit_ns, Windows& windows) const {
  bool dropped = false;
  for (int way = 0; way < ways(); ++way) dropped |= narrow_by(way, limit_ns, windows);
  return dropped;
}

bool WayBounds::narrow_by(int way, std::int64_t limit_ns, Windows& windows) const {
  bool dropped = false;
  std::vector<std::int64_t> before(static_cast<std::size_t>(prices_.layers()) + 1, WayBounds::kFar);
  before[0] = 0;
  for (int s = 0; s + 1 < windows.stages(); ++s) {
    const auto next = static_cast<std::size_t>(s) + 1;
    std::vector<std::int64_t> reached(before.size(), WayBounds::kFar);
    for (const int last : windows.begins[next]) {
      for (const int first : windows.begins[next - 1]) {
        const std::int64_t there = before[static_cast<std::size_t>(first)];
        std::int64_t& least = reached[static_cast<std::size_t>(last)];
        if (there < least && windows.allows(s, first, last)) least = std::min(least, through(way, s, first, last, there));
      }
    }
    const auto useless = [&](int layer) { return reached[static_cast<std::size_t>(layer)] + rest(way, s + 1, layer) > limit_ns; };
    dropped |= std::erase_if(windows.begins[next], useless) > 0;
    before = std::move(reached);
  }
  return dropped;
}

BalanceBound::BalanceBound(const Prices& prices, std::vector<Way> rows) : prices_(prices), own_(rows.size()), passing_(rows.size()) {
  for (int slot = 0; slot < prices.slots(); ++slot) {
    const auto stage = static_cast<std::size_t>(prices.stage(slot));
    const auto count = [&](std::size_t row) { return rows[row].count[static_cast<std::size_t>(slot)]; };
    if (count(stage) > 0) own_[stage].emplace_back(slot, count(stage));
    int least = stage + 1 < rows.size() ? count(stage + 1) : 0;
    for (std::size_t row = stage + 1; row < rows.size(); ++row) least = std::min(least, count(row));
    if (least > 0) passing_[stage].emplace_back(slot, least);
  }
}

std::int64_t BalanceBound::sum(const Terms& terms, int stage, int first, int last) const {
  std::int64_t ns = 0;
  for (const auto& [slot, count] : terms[static_cast<std::size_t>(stage)]) ns += count * prices_.ns(slot, first, last);
  return ns;
}

std::int64_t BalanceBound::longest(int stage, int first, int last) const {
  const auto at = static_cast<std::size_t>(stage);
  const std::int64_t behind = rest_[at + 1][static_cast<std::size_t>(last)];
  if (behind >= WayBounds::kFar) return WayBounds::kFar;
  const std::int64_t own = sum(own_, stage, first, last);
  return at + 1 == own_.size() ? own : std::max(own, passing(stage, first, last) + behind);
}

void BalanceBound::refresh(const Windows& windows) {
  rest_ = far_from_end(windows.stages(), prices_.layers());
  for (int s = windows.stages(); s-- > 0;) {
    const auto at = static_cast<std::size_t>(s);
    for (const int first : windows.begins[at]) {
      std::int64_t least = WayBounds::kFar;
      for (const int last : windows.begins[at + 1]) {
        if (windows.allows(s, first, last)) least = std::min(least, longest(s, first, last));
      }
      rest_[at][static_cast<std::size_t>(first)] = least;
    }
  }
}

int BalanceBound::best_last(const Windows& windows, int stage, int first) const {
  int best = -1;
  std::int64_t least = WayBounds::kFar;
  for (const int last : windows.begins[static_cast<std::size_t>(stage) + 1]) {
    if (!windows.allows(stage, first, last) || longest(stage, first, last) >= least) continue;
    least = longest(stage, first, last);
    best = last;
  }
  return best;
}

}  // namespace mptune
