#include "planner/partition/path_bounds.h"

#include <algorithm>

#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

std::vector<std::vector<std::int64_t>> far_from_end(int stages, int layers) {
  const auto width = as_index(layers) + 1;
  std::vector<std::vector<std::int64_t>> rest(as_index(stages) + 1, std::vector<std::int64_t>(width, PathBounds::kFar));
  rest.back().back() = 0;
  return rest;
}

}  // namespace

bool Windows::empty() const {
  return std::any_of(begins.begin(), begins.end(), [](const std::vector<int>& layers) { return layers.empty(); });
}

void PathBounds::add(const Path& path) {
  if (std::any_of(paths_.begin(), paths_.end(), [&](const Bounded& known) { return known.path == path; })) return;
  Bounded bounded;
  bounded.path = path;
  bounded.parts.resize(as_index(stages_));
  for (int slot = 0; slot < static_cast<int>(path.count.size()); ++slot) {
    const int count = path.count[as_index(slot)];
    if (count > 0) add_slot(slot, count, bounded.parts[as_index(prices_.stage(slot))]);
  }
  paths_.push_back(std::move(bounded));
}

void PathBounds::add_slot(int slot, std::int64_t count, Part& part) const {
  if (prices_.kind(slot) != EventKind::copy) {
    part.fixed_ns += count * prices_.fixed_ns(slot);
    const auto same =
        std::find_if(part.ranges.begin(), part.ranges.end(), [&](const auto& known) { return known.first == prices_.by_range(slot); });
    if (same != part.ranges.end())
      same->second += count;
    else
      part.ranges.emplace_back(prices_.by_range(slot), count);
    return;
  }
  part.by_cut.resize(as_index(prices_.layers()) + 1, 0);
  for (int cut = 1; cut < prices_.layers(); ++cut) part.by_cut[as_index(cut)] += count * prices_.ns(slot, 0, cut);
}

void PathBounds::find_rest(const Windows& windows, Bounded& path) const {
  path.rest = far_from_end(stages_, prices_.layers());
  for (int s = stages_; s-- > 0;) {
    const auto at = as_index(s);
    for (const int first : windows.begins[at]) {
      std::int64_t least = kFar;
      for (const int last : windows.begins[at + 1]) {
        const std::int64_t behind = path.rest[at + 1][as_index(last)];
        if (behind < least && windows.allows(s, first, last)) least = std::min(least, behind + length(path.parts[at], first, last));
      }
      path.rest[at][as_index(first)] = least;
    }
  }
}

void PathBounds::refresh(const Windows& windows, int first_path) {
  for (auto path = as_index(first_path); path < paths_.size(); ++path) find_rest(windows, paths_[path]);
}

std::int64_t PathBounds::longest(const std::vector<int>& cuts) const {
  std::int64_t longest = 0;
  for (const Bounded& path : paths_) {
    std::int64_t ns = 0;
    int first = 0;
    for (std::size_t s = 0; s <= cuts.size(); ++s) {
      const int last = s < cuts.size() ? cuts[s] : prices_.layers();
      ns += length(path.parts[s], first, last);
      first = last;
    }
    longest = std::max(longest, ns / path.path.of);
  }
  return longest;
}

int PathBounds::narrow(std::int64_t limit_ns, Windows& windows) {
  int dropped = 0;
  for (int path = 0; path < paths() && !windows.empty(); ++path) {
    find_rest(windows, paths_[as_index(path)]);
    dropped += narrow_by(path, limit_ns, windows);
  }
  return dropped;
}

int PathBounds::narrow_by(int path, std::int64_t limit_ns, Windows& windows) const {
  int dropped = 0;
  const std::int64_t limit = scaled(path, limit_ns);
  std::vector<std::int64_t> before(as_index(prices_.layers()) + 1, kFar);
  before[0] = 0;
  for (int s = 0; s + 1 < stages_; ++s) {
    const auto next = as_index(s) + 1;
    std::vector<std::int64_t> reached(before.size(), kFar);
    const std::vector<int>& ends = windows.begins[next];
    for (const int first : windows.begins[next - 1]) {
      const auto at = as_index(first);
      int nearest = prices_.layers() + 1;
      int furthest = first;
      for (const int last : ends) {
        if (!windows.allows(s, first, last)) continue;
        const std::int64_t there = through(path, s, first, last, before[at]);
        if (there + rest(path, s + 1, last) > limit) continue;
        std::int64_t& least = reached[as_index(last)];
        least = std::min(least, there);
        nearest = std::min(nearest, last);
        furthest = last;
      }
      windows.nearest[next - 1][at] = nearest;
      windows.furthest[next - 1][at] = furthest;
    }
    const auto useless = [&](int layer) { return reached[as_index(layer)] + rest(path, s + 1, layer) > limit; };
    dropped += static_cast<int>(std::erase_if(windows.begins[next], useless));
    before = std::move(reached);
  }
  return dropped;
}

BalanceBound::BalanceBound(const Prices& prices, std::vector<Path> rows)
    : prices_(prices), rows_(std::move(rows)), own_(rows_.size()), passing_(rows_.size()) {
  for (int slot = 0; slot < prices.slots(); ++slot) {
    const auto stage = as_index(prices.stage(slot));
    const auto count = [&](std::size_t row) { return rows_[row].count[as_index(slot)]; };
    if (count(stage) > 0) own_[stage].emplace_back(slot, count(stage));
    int least = stage + 1 < rows_.size() ? count(stage + 1) : 0;
    for (std::size_t row = stage + 1; row < rows_.size(); ++row) least = std::min(least, count(row));
    if (least > 0) passing_[stage].emplace_back(slot, least);
  }
}

std::int64_t BalanceBound::sum(const Terms& terms, int stage, int first, int last) const {
  std::int64_t ns = 0;
  for (const auto& [slot, count] : terms[as_index(stage)]) ns += count * prices_.ns(slot, first, last);
  return ns;
}

std::int64_t BalanceBound::longest(int stage, int first, int last) const {
  const auto at = as_index(stage);
  const std::int64_t behind = rest_[at + 1][as_index(last)];
  if (behind >= PathBounds::kFar) return PathBounds::kFar;
  const std::int64_t own = sum(own_, stage, first, last);
  return at + 1 == own_.size() ? own : std::max(own, passing(stage, first, last) + behind);
}

void BalanceBound::refresh(const Windows& windows) {
  rest_ = far_from_end(windows.stages(), prices_.layers());
  for (int s = windows.stages(); s-- > 0;) {
    const auto at = as_index(s);
    for (const int first : windows.begins[at]) {
      std::int64_t least = PathBounds::kFar;
      for (const int last : windows.begins[at + 1])
        if (windows.allows(s, first, last)) least = std::min(least, longest(s, first, last));
      rest_[at][as_index(first)] = least;
    }
  }
}

int BalanceBound::best_last(const Windows& windows, int stage, int first) const {
  int best = -1;
  std::int64_t least = PathBounds::kFar;
  for (const int last : windows.begins[as_index(stage) + 1]) {
    if (!windows.allows(stage, first, last) || longest(stage, first, last) >= least) continue;
    least = longest(stage, first, last);
    best = last;
  }
  return best;
}

}  // namespace mptune::planner
