#include "planner/search/bounds/two_rounds.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr double kUnreached = std::numeric_limits<double>::infinity();
constexpr int kMostPlaces = 4;                                    // places on each side of a cut
constexpr std::int64_t kMostTransitions = std::int64_t{1} << 18;  // over all pairs of rounds

class TwoRounds {
 public:
  TwoRounds(CutsRater& rater, const std::vector<int>& devices, const std::vector<int>& open, const std::vector<int>& cuts)
      : rater_(rater), devices_(devices), open_(open), cuts_(cuts), per_round_(rater.on().size()), rounds_(devices.size() / per_round_) {
    const auto pairs = static_cast<std::int64_t>(rounds_ * (rounds_ - 1) / 2 * per_round_);
    const auto transitions = [&](std::int64_t side) { return side * side * side * side * pairs; };
    while (furthest_ > 1 && transitions(2 * furthest_ + 1) > kMostTransitions) --furthest_;
    side_ = 2 * furthest_ + 1;
  }

  // True if every round visits every device once, in the order of the first round or backwards.
  [[nodiscard]] bool has_rounds() const {
    if (rounds_ < 2 || devices_.size() % per_round_ != 0) return false;
    for (std::size_t r = 0; r < rounds_; ++r)
      for (std::size_t d = 0; d < per_round_; ++d)
        if (devices_[stage(r, d)] != devices_[d]) return false;
    return true;
  }

  // Tries places far apart first, and neighbouring ones last.
  bool run() {
    bool any = false;
    for (stride_ = std::max<std::ptrdiff_t>(1, std::ssize(open_) / (std::ssize(devices_) * side_)); stride_ > 0; stride_ /= 2)
      for (bool better = true; better;) {
        better = false;
        for (std::size_t v = 0; v < rounds_; ++v)
          for (std::size_t w = v + 1; w < rounds_; ++w) better = improve(v, w) || better;
        any = any || better;
      }
    return any;
  }

  [[nodiscard]] const std::vector<int>& cuts() const { return cuts_; }

 private:
  // For one state, the least sum until there, and the state before.
  struct Best {
    double sum = kUnreached;
    int from = -1;
  };
  // One place in each of two rounds.
  struct Places {
    int v = -1;
    int w = -1;
  };

  [[nodiscard]] bool backwards(std::size_t r) const { return devices_[r * per_round_] != devices_.front(); }
  [[nodiscard]] std::size_t stage(std::size_t r, std::size_t d) const { return r * per_round_ + (backwards(r) ? per_round_ - 1 - d : d); }
  // Returns the stage whose beginning is the border between device d and the one before it.
  [[nodiscard]] std::size_t border(std::size_t r, std::size_t d) const { return r * per_round_ + (backwards(r) ? per_round_ - d : d); }

  // Returns the layer `places` places after the cut at the border, or -1. The ends of a round do not move.
  [[nodiscard]] int layer_at(std::size_t r, std::size_t d, int places) const {
    const std::size_t s = border(r, d);
    if (d == 0 || d == per_round_) return places == 0 ? static_cast<int>(rater_.begin(cuts_, s)) : -1;
    const std::ptrdiff_t place = std::ranges::lower_bound(open_, cuts_[s - 1]) - open_.begin() + places * stride_;
    return place < 0 || place >= std::ssize(open_) ? -1 : open_[as_index(place)];
  }

  [[nodiscard]] std::vector<Places> states(std::size_t v, std::size_t w, std::size_t d) const {
    std::vector<Places> places;
    for (int i = -furthest_; i <= furthest_; ++i)
      for (int k = -furthest_; k <= furthest_; ++k) places.push_back({layer_at(v, d, i), layer_at(w, d, k)});
    return places;
  }

  [[nodiscard]] CutsRater::Range range(std::size_t r, int from, int to) const {
    return backwards(r) ? CutsRater::Range{as_index(to), as_index(from)} : CutsRater::Range{as_index(from), as_index(to)};
  }

  // Returns the best states after a device, from those before it. States with sums of `known` or more lead to nothing better.
  [[nodiscard]] std::vector<Best> behind(std::size_t v, std::size_t w, std::size_t d, const std::vector<Best>& before, double known) const {
    std::vector<CutsRater::Range> ranges;
    for (std::size_t r = 0; r < rounds_; ++r) ranges.push_back({rater_.begin(cuts_, stage(r, d)), rater_.begin(cuts_, stage(r, d) + 1)});
    const std::vector<Places> from = states(v, w, d);
    const std::vector<Places> to = states(v, w, d + 1);
    std::vector<Best> best(to.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (before[i].sum >= known) continue;
      for (std::size_t k = 0; k < to.size(); ++k) {
        if (to[k].v < 0 || to[k].w < 0) continue;
        ranges[v] = range(v, from[i].v, to[k].v);
        ranges[w] = range(w, from[i].w, to[k].w);
        if (ranges[v].first >= ranges[v].last || ranges[w].first >= ranges[w].last) continue;
        const double sum = before[i].sum + rater_.of_device(d, ranges).sum;
        if (sum < best[k].sum) best[k] = {sum, static_cast<int>(i)};
      }
    }
    return best;
  }

  bool improve(std::size_t v, std::size_t w) {
    const double known = rater_.rate(cuts_).sum;
    const auto middle = as_index(furthest_ * side_ + furthest_);
    std::vector<std::vector<Best>> best{std::vector<Best>(as_index(side_ * side_))};
    best.front()[middle].sum = 0;
    for (std::size_t d = 0; d < per_round_; ++d) best.push_back(behind(v, w, d, best.back(), known));
    std::vector<int> cuts = cuts_;
    auto at = static_cast<int>(middle);
    for (std::size_t d = per_round_; d > 1; --d) {
      at = best[d][as_index(at)].from;
      if (at < 0) return false;
      cuts[border(v, d - 1) - 1] = layer_at(v, d - 1, at / side_ - furthest_);
      cuts[border(w, d - 1) - 1] = layer_at(w, d - 1, at % side_ - furthest_);
    }
    // Other cuts have other copies.
    if (rater_.rate(cuts).sum >= known * (1 - 1e-9)) return false;
    cuts_ = std::move(cuts);
    return true;
  }

  CutsRater& rater_;
  const std::vector<int>& devices_;
  const std::vector<int>& open_;
  std::vector<int> cuts_;
  std::size_t per_round_;
  std::size_t rounds_;
  std::ptrdiff_t stride_ = 1;
  int furthest_ = kMostPlaces;
  int side_ = 1;
};

}  // namespace

bool improve_two_rounds(CutsRater& rater, const std::vector<int>& devices, const std::vector<int>& open, std::vector<int>& cuts) {
  TwoRounds rounds(rater, devices, open, cuts);
  if (!rounds.has_rounds() || !rounds.run()) return false;
  cuts = rounds.cuts();
  return true;
}

}  // namespace mptune::planner
