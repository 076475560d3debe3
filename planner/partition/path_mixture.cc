#include "planner/partition/path_mixture.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr double kShares = 1024;  // of which whole weights are made
constexpr int kPatience = 4;      // rounds without a better mean, before weights change half as fast

}  // namespace

void PathMixture::add(const Path& path) {
  // The first paths begin with equal weights.
  if (best_ns_ < 0)
    weights_.assign(paths_.size() + 1, 1.0 / static_cast<double>(paths_.size() + 1));
  else
    weights_.push_back(0);
  paths_.push_back(path);
}

std::vector<PathMixture::Part> PathMixture::parts() const {
  std::vector<Part> parts(as_index(stages_));
  for (int slot = 0; slot < prices_.slots(); ++slot) {
    double weight = 0;
    for (std::size_t path = 0; path < paths_.size(); ++path)
      if (weights_[path] > 0) weight += weights_[path] * paths_[path].count[as_index(slot)];
    if (weight <= 0) continue;
    Part& part = parts[as_index(prices_.stage(slot))];
    if (prices_.kind(slot) == EventKind::copy) {
      part.by_cut.resize(as_index(prices_.layers()) + 1, 0);
      for (int cut = 1; cut < prices_.layers(); ++cut)
        part.by_cut[static_cast<std::size_t>(cut)] += weight * static_cast<double>(prices_.ns(slot, 0, cut));
      continue;
    }
    part.fixed_ns += weight * static_cast<double>(prices_.fixed_ns(slot));
    const auto same = std::ranges::find(part.ranges, prices_.by_range(slot), [](const auto& known) { return known.first; });
    if (same != part.ranges.end())
      same->second += weight;
    else
      part.ranges.emplace_back(prices_.by_range(slot), weight);
  }
  return parts;
}

std::optional<PathMixture::Least> PathMixture::least(const Windows& windows) const {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  const std::vector<Part> all = parts();
  const auto width = as_index(prices_.layers()) + 1;
  std::vector<double> rest(width, kFar);
  rest.back() = 0;
  std::vector<std::vector<int>> next(all.size(), std::vector<int>(width, -1));
  for (std::size_t s = all.size(); s-- > 0;) {
    std::vector<double> now(width, kFar);
    const Part& part = all[s];
    for (const int first : windows.begins[s]) {
      const auto at = as_index(first);
      for (const int last : windows.begins[s + 1]) {
        const auto end = as_index(last);
        if (!windows.allows(static_cast<int>(s), first, last)) continue;
        double ns = part.fixed_ns + rest[end] + (part.by_cut.empty() ? 0 : part.by_cut[end]);
        for (const auto& [table, weight] : part.ranges) ns += weight * static_cast<double>(table->at(first, last));
        if (ns >= now[at]) continue;
        now[at] = ns;
        next[s][at] = last;
      }
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
