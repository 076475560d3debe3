#include "planner/partition/path_bounds.h"

#include <algorithm>

#include "profiler/base/index.h"

namespace mptune::planner {

void PathBounds::add(const Path& path) {
  if (std::any_of(paths_.begin(), paths_.end(), [&](const Bounded& known) { return known.path == path; })) return;
  Bounded bounded{path, std::vector<RangeSum<std::int64_t>>(as_index(stages_), RangeSum<std::int64_t>(prices_.layers())), {}};
  for (int slot = 0; slot < static_cast<int>(path.count.size()); ++slot) {
    const int count = path.count[as_index(slot)];
    if (count > 0) bounded.parts[as_index(prices_.stage(slot))].add(prices_, slot, count);
  }
  paths_.push_back(std::move(bounded));
}

void PathBounds::find_rest(const Windows& windows, Bounded& path) {
  path.rest.assign(as_index(stages_) + 1, std::vector<std::int64_t>(as_index(prices_.layers()) + 1, kFar));
  path.rest.back().back() = 0;
  ends_.resize(as_index(stages_));
  for (int s = stages_; s-- > 0;) {
    const auto at = as_index(s);
    const std::vector<int>& ends = windows.begins[at + 1];
    std::vector<std::int64_t> ways(as_index(ends.back() - ends.front()) + 1, kNoWay);
    for (const int last : ends)
      if (const std::int64_t behind = path.rest[at + 1][as_index(last)]; behind < kFar)
        ways[as_index(last - ends.front())] = behind + path.parts[at].upto(last);
    ends_[at].assign(ends.front(), std::move(ways));
    for (const int first : windows.begins[at]) path.rest[at][as_index(first)] = least_rest(windows, path, s, first);
  }
}

std::int64_t PathBounds::least_rest(const Windows& windows, const Bounded& path, int stage, int first) const {
  const auto at = as_index(stage);
  const auto [nearest, furthest] = windows.ends(stage, first);
  if (nearest > furthest) return kFar;
  const RangeSum<std::int64_t>& part = path.parts[at];
  if (!part.has_open_ranges()) {
    const std::int64_t way = ends_[at].value(ends_[at].least(nearest, furthest));
    return way < kNoWay ? std::min(kFar, way - part.before(first)) : kFar;
  }
  std::int64_t least = kFar;
  for (const int last : windows.begins[at + 1]) {
    const std::int64_t behind = path.rest[at + 1][as_index(last)];
    if (behind < least && windows.allows(stage, first, last)) least = std::min(least, behind + part.at(first, last));
  }
  return least;
}

void PathBounds::refresh(const Windows& windows, int first_path) {
  for (auto path = as_index(first_path); path < paths_.size(); ++path) find_rest(windows, paths_[path]);
}

std::int64_t PathBounds::longest(const std::vector<int>& cuts, std::int64_t enough_ns) {
  std::int64_t longest = 0;
  for (std::size_t p = 0; p < paths_.size(); ++p) {
    const std::size_t at = (exceeded_ + p) % paths_.size();
    longest = std::max(longest, length(paths_[at], cuts));
    if (longest <= enough_ns) continue;
    exceeded_ = at;
    break;
  }
  return longest;
}

std::int64_t PathBounds::length(const Bounded& path, const std::vector<int>& cuts) const {
  std::int64_t ns = 0;
  int first = 0;
  for (std::size_t s = 0; s <= cuts.size(); ++s) {
    const int last = s < cuts.size() ? cuts[s] : prices_.layers();
    ns += path.parts[s].at(first, last);
    first = last;
  }
  return ns / path.path.of;
}

int PathBounds::narrow(std::int64_t limit_ns, Windows& windows) {
  int dropped = 0;
  for (int path = 0; path < paths() && !windows.empty(); ++path) {
    find_rest(windows, paths_[as_index(path)]);
    dropped += narrow_by(path, limit_ns, windows);
  }
  return dropped;
}

// Requires: the rest of this path was the last that find_rest() found.
int PathBounds::narrow_by(int path, std::int64_t limit_ns, Windows& windows) {
  const Bounded& bounded = paths_[as_index(path)];
  const std::int64_t limit = scaled(path, limit_ns);
  int dropped = 0;
  std::vector<std::int64_t> before(as_index(prices_.layers()) + 1, kFar);
  before[0] = 0;
  for (int s = 0; s + 1 < stages_; ++s) {
    before = narrow_stage(bounded, s, limit, before, windows);
    const auto useless = [&](int layer) { return before[as_index(layer)] + rest(path, s + 1, layer) > limit; };
    dropped += static_cast<int>(std::erase_if(windows.begins[as_index(s) + 1], useless));
  }
  return dropped;
}

// Leaves in the windows of one stage what paths within the limit use. Returns the least length up to each layer where the stage may end.
std::vector<std::int64_t> PathBounds::narrow_stage(const Bounded& path, int stage, std::int64_t limit,
                                                   const std::vector<std::int64_t>& before, Windows& windows) const {
  const auto at = as_index(stage);
  const RangeSum<std::int64_t>& part = path.parts[at];
  const std::vector<int>& ends = windows.begins[at + 1];
  LoweredRanges<std::int64_t> starts(ends.front(), as_index(ends.back() - ends.front()) + 1, kNoWay);
  std::vector<std::int64_t> reached(before.size(), kFar);
  for (const int first : windows.begins[at]) {
    const std::int64_t start = before[as_index(first)];
    const auto [nearest, furthest] = reach(windows, path, stage, first, limit - start);
    windows.nearest[at][as_index(first)] = nearest;
    windows.furthest[at][as_index(first)] = furthest;
    if (nearest > furthest) continue;
    if (!part.has_open_ranges()) {
      starts.lower(nearest, furthest, start - part.before(first));
      continue;
    }
    for (int last = nearest; last <= furthest; ++last)
      reached[as_index(last)] = std::min(reached[as_index(last)], start + part.at(first, last));
  }
  const std::vector<std::int64_t> least = std::move(starts).values();
  for (const int last : ends)
    if (const std::int64_t start = least[as_index(last - ends.front())]; start < kNoWay)
      reached[as_index(last)] = std::min(reached[as_index(last)], start + part.upto(last));
  return reached;
}

// Returns the nearest and the furthest end of a stage from which the path goes on within what is left; an empty range where there is none.
std::pair<int, int> PathBounds::reach(const Windows& windows, const Bounded& path, int stage, int first, std::int64_t left) const {
  const auto at = as_index(stage);
  const auto [nearest, furthest] = windows.ends(stage, first);
  const std::pair<int, int> none{prices_.layers() + 1, first};
  if (left < 0 || nearest > furthest) return none;
  const RangeSum<std::int64_t>& part = path.parts[at];
  if (!part.has_open_ranges()) {
    const std::int64_t limit = std::min(left + part.before(first), kNoWay - 1);
    const int least = ends_[at].first_at_most(nearest, furthest, limit);
    return least < 0 ? none : std::pair(least, ends_[at].last_at_most(least, furthest, limit));
  }
  std::pair<int, int> found = none;
  for (const int last : windows.begins[at + 1]) {
    if (last < nearest || last > furthest || part.at(first, last) + path.rest[at + 1][as_index(last)] > left) continue;
    found = {std::min(found.first, last), last};
  }
  return found;
}

}  // namespace mptune::planner
