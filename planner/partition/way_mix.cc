#include "mptune/planner/partition/way_mix.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mptune {
namespace {

constexpr double kShares = 1024;  // of which whole weights are made
constexpr int kPatience = 4;      // rounds without a better mean, before weights change half as fast

}  // namespace

void WayMix::add(const Way& way) {
  // The first ways begin with equal weights.
  if (best_ns_ < 0) {
    weights_.assign(ways_.size() + 1, 1.0 / static_cast<double>(ways_.size() + 1));
  } else {
    weights_.push_back(0);
  }
  ways_.push_back(way);
}

std::vector<WayMix::Part> WayMix::parts() const {
  std::vector<Part> parts(static_cast<std::size_t>(stages_));
  for (int slot = 0; slot < prices_.slots(); ++slot) {
    double weight = 0;
    for (std::size_t way = 0; way < ways_.size(); ++way) {
      if (weights_[way] > 0) weight += weights_[way] * ways_[way].count[static_cast<std::size_t>(slot)];
    }
    if (weight <= 0) continue;
    Part& part = parts[static_cast<std::size_t>(prices_.stage(slot))];
    if (prices_.what(slot) == What::copy) {
      part.by_cut.resize(static_cast<std::size_t>(prices_.layers()) + 1, 0);
      for (int cut = 1; cut < prices_.layers(); ++cut)
        part.by_cut[static_cast<std::size_t>(cut)] += weight * static_cast<double>(prices_.ns(slot, 0, cut));
      continue;
    }
    part.fixed_ns += weight * static_cast<double>(prices_.fixed_ns(slot));
    const auto same = std::ranges::find(part.ranges, prices_.by_range(slot), [](const auto& known) { return known.first; });
    if (same != part.ranges.end()) {
      same->second += weight;
    } else {
      part.ranges.emplace_back(prices_.by_range(slot), weight);
    }
  }
  return parts;
}

std::optional<WayMix::Least> WayMix::least(const Windows& windows) const {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  const std::vector<Part> all = parts();
  const auto width = static_cast<std::size_t>(prices_.layers()) + 1;
  std::vector<double> rest(width, kFar);
  rest.back() = 0;
  std::vector<std::vector<int>> next(all.size(), std::vector<int>(width, -1));
  for (std::size_t s = all.size(); s-- > 0;) {
    std::vector<double> now(width, kFar);
    const Part& part = all[s];
    for (const int first : windows.begins[s]) {
      const auto at = static_cast<std::size_t>(first);
      for (const int last : windows.begins[s + 1]) {
        const auto end = static_cast<std::size_t>(last);
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
    first = next[static_cast<std::size_t>(s)][static_cast<std::size_t>(first)];
    found.cuts.push_back(first);
  }
  return found;
}

std::vector<double> WayMix::lengths(const std::vector<int>& cuts) const {
  std::vector<double> lengths(ways_.size(), 0);
  for (int slot = 0; slot < prices_.slots(); ++slot) {
    const auto stage = static_cast<std::size_t>(prices_.stage(slot));
    const int first = stage == 0 ? 0 : cuts[stage - 1];
    const int last = stage == cuts.size() ? prices_.layers() : cuts[stage];
    const auto ns = static_cast<double>(prices_.ns(slot, first, last));
    for (std::size_t way = 0; way < ways_.size(); ++way) lengths[way] += ns * ways_[way].count[static_cast<std::size_t>(slot)];
  }
  return lengths;
}

void WayMix::reweigh(const Least& least, double target_ns) {
  if (least.ns > best_ns_) {
    best_ns_ = least.ns;
    best_weights_ = weights_;
    since_best_ = 0;
  } else if (++since_best_ >= kPatience) {
    since_best_ = 0;
    pace_ /= 2;
    weights_ = best_weights_;
    weights_.resize(ways_.size(), 0);
  }
  std::vector<double> longer = lengths(least.cuts);
  double square = 0;
  for (double& ns : longer) {
    ns -= least.ns;
    square += ns * ns;
  }
  if (square <= 0 || target_ns <= least.ns) return;
  double sum = 0;
  for (std::size_t way = 0; way < ways_.size(); ++way) {
    weights_[way] = std::max(0.0, weights_[way] + pace_ * (target_ns - least.ns) / square * longer[way]);
    sum += weights_[way];
  }
  for (double& weight : weights_) weight /= sum;
}

Way WayMix::best() const {
  Way mean;
  mean.count.assign(static_cast<std::size_t>(prices_.slots()), 0);
  mean.of = 0;
  for (std::size_t way = 0; way < best_weights_.size(); ++way) {
    const int share = static_cast<int>(std::lround(best_weights_[way] * kShares));
    mean.of += share;
    for (std::size_t slot = 0; slot < mean.count.size(); ++slot) mean.count[slot] += share * ways_[way].count[slot];
  }
  return mean;
}

}  // namespace mptune
