#include "planner/partition/path_mixture.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr double kShares = 1024;  // whole weights are made of this many shares
constexpr int kPatience = 4;      // rounds without a better mean, before weights change half as fast

// Returns where a stage that begins at `first` ends best, and the mean from `first` on; -1 if the stage can't end. `ends` has the mean up
// to each end and on from there, `rest` the mean from there alone.
std::pair<int, double> best_end(const Windows& windows, const RangeSum<double>& part, const RangeMinimum<double>& ends,
                                const std::vector<double>& rest, int stage, int first) {
  std::pair<int, double> found{-1, std::numeric_limits<double>::infinity()};
  const auto at = as_index(stage);
  const auto [nearest, furthest] = windows.ends(stage, first);
  if (nearest > furthest) return found;
  if (!part.has_open_ranges()) {
    const int last = ends.least(nearest, furthest);
    const double ns = ends.value(last) - part.before(first);
    return std::isfinite(ns) ? std::pair(last, ns) : found;
  }
  for (const int last : windows.begins[at + 1]) {
    if (!windows.allows(stage, first, last)) continue;
    const double ns = rest[as_index(last)] + part.at(first, last);
    if (ns < found.second) found = {last, ns};
  }
  return found;
}

}  // namespace

void PathMixture::add(const Path& path) {
  // The first paths begin with equal weights.
  if (best_ns_ < 0)
    weights_.assign(paths_.size() + 1, 1.0 / static_cast<double>(paths_.size() + 1));
  else
    weights_.push_back(0);
  paths_.push_back(path);
}

// Returns what each stage, and the copies after it, add to the mean.
std::vector<RangeSum<double>> PathMixture::parts() const {
  std::vector<RangeSum<double>> parts(as_index(stages_), RangeSum<double>(prices_.layers()));
  for (int slot = 0; slot < prices_.slots(); ++slot) {
    double weight = 0;
    for (std::size_t path = 0; path < paths_.size(); ++path)
      if (weights_[path] > 0) weight += weights_[path] * paths_[path].count[as_index(slot)];
    if (weight > 0) parts[as_index(prices_.stage(slot))].add(prices_, slot, weight);
  }
  return parts;
}

std::optional<PathMixture::Least> PathMixture::least(const Windows& windows) const {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  const std::vector<RangeSum<double>> all = parts();
  const auto width = as_index(prices_.layers()) + 1;
  std::vector<double> rest(width, kFar);
  rest.back() = 0;
  std::vector<std::vector<int>> next(all.size(), std::vector<int>(width, -1));
  for (std::size_t s = all.size(); s-- > 0;) {
    const int nearest = windows.begins[s + 1].front();
    std::vector<double> ways(as_index(windows.begins[s + 1].back() - nearest) + 1, kFar);
    for (const int last : windows.begins[s + 1]) ways[as_index(last - nearest)] = rest[as_index(last)] + all[s].upto(last);
    RangeMinimum<double> ends;
    ends.assign(nearest, std::move(ways));
    std::vector<double> now(width, kFar);
    for (const int first : windows.begins[s]) {
      const auto at = as_index(first);
      std::tie(next[s][at], now[at]) = best_end(windows, all[s], ends, rest, static_cast<int>(s), first);
    }
    rest = std::move(now);
  }
  if (rest.front() == kFar) return std::nullopt;
  Least found{rest.front(), {}};
  int first = 0;
  for (int s = 0; s + 1 < stages_; ++s) {
    first = next[as_index(s)][as_index(first)];
    found.cuts.push_back(first);
  }
  return found;
}

std::vector<double> PathMixture::lengths(const std::vector<int>& cuts) const {
  std::vector<double> lengths(paths_.size(), 0);
  for (int slot = 0; slot < prices_.slots(); ++slot) {
    const auto stage = as_index(prices_.stage(slot));
    const int first = stage == 0 ? 0 : cuts[stage - 1];
    const int last = stage == cuts.size() ? prices_.layers() : cuts[stage];
    const auto ns = static_cast<double>(prices_.ns(slot, first, last));
    for (std::size_t path = 0; path < paths_.size(); ++path) lengths[path] += ns * paths_[path].count[as_index(slot)];
  }
  return lengths;
}

void PathMixture::reweigh(const Least& least, double target_ns) {
  if (least.ns > best_ns_) {
    best_ns_ = least.ns;
    best_weights_ = weights_;
    since_best_ = 0;
  } else if (++since_best_ >= kPatience) {
    since_best_ = 0;
    pace_ /= 2;
    weights_ = best_weights_;
    weights_.resize(paths_.size(), 0);
  }
  std::vector<double> longer = lengths(least.cuts);
  double square = 0;
  for (double& ns : longer) {
    ns -= least.ns;
    square += ns * ns;
  }
  if (square <= 0 || target_ns <= least.ns) return;
  double sum = 0;
  for (std::size_t path = 0; path < paths_.size(); ++path) {
    weights_[path] = std::max(0.0, weights_[path] + pace_ * (target_ns - least.ns) / square * longer[path]);
    sum += weights_[path];
  }
  for (double& weight : weights_) weight /= sum;
}

Path PathMixture::best() const {
  Path mean;
  mean.count.assign(as_index(prices_.slots()), 0);
  mean.of = 0;
  for (std::size_t path = 0; path < best_weights_.size(); ++path) {
    const int share = static_cast<int>(std::lround(best_weights_[path] * kShares));
    mean.of += share;
    for (std::size_t slot = 0; slot < mean.count.size(); ++slot) mean.count[slot] += share * paths_[path].count[slot];
  }
  return mean;
}

}  // namespace mptune::planner
