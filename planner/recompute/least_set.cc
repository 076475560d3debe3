#include "planner/recompute/least_set.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

// Most sets of a front. Of a longer front every second set is dropped.
constexpr std::size_t kMostSets = 512;

// A set of some of the layers.
struct Set {
  std::int64_t ns = 0;
  std::int64_t freed = 0;
  int last = -1;  // index among the links, -1: empty
};

// A layer of a set, and the link to the layer before it.
struct Link {
  int layer = 0;
  int before = -1;
};

using Front = std::vector<Set>;  // from set to set, forwards take longer and more bytes are freed

// Returns what is saved in addition if the layer before this one is computed again and this one is not.
std::int64_t border(const LayerChoice& layer, bool before, bool again) {
  return before && !again && !layer.first ? layer.input_bytes : 0;
}

Front merged(const Front& a, const Front& b) {
  const auto takes_less = [](const Set& x, const Set& y) { return x.ns != y.ns ? x.ns < y.ns : x.freed > y.freed; };
  Front all(a.size() + b.size());
  std::ranges::merge(a, b, all.begin(), takes_less);
  Front best;
  for (const Set& set : all)
    if (best.empty() || set.freed > best.back().freed) best.push_back(set);
  while (best.size() > kMostSets) {
    std::size_t kept = 0;
    for (std::size_t i = best.size() % 2 == 0 ? 1 : 0; i < best.size(); i += 2) best[kept++] = best[i];
    best.resize(kept);
  }
  return best;
}

class Search {
 public:
  Search(const std::vector<LayerChoice>& layers, const std::function<bool(const LayerSet&)>& fits)
      : layers_(layers), fits_(fits), least_(layers.size() + 1) {}

  LeastSet find() {
    // At this price of a byte, all forwards together cost less than one byte.
    double all_ns = 1;
    for (const LayerChoice& layer : layers_) all_ns += static_cast<double>(layer.forward_ns);
    high_ = cheapest(all_ns);
    if (!fits(high_)) return std::move(found_);
    found_.layers = layers_of(high_);
    if (high_.freed <= low_.freed) return std::move(found_);
    find_neighbours();
    choose(between());
    return std::move(found_);
  }

 private:
  // Fills least_: for the layers from each one on, the least time less the price of what is freed.
  void price(double ns_per_byte) {
    price_ = ns_per_byte;
    least_.back() = {0, 0};
    for (std::size_t i = layers_.size(); i-- > 0;)
      for (const bool before : {false, true}) least_[i][before] = std::min(with(i, before, false), with(i, before, true));
  }

  [[nodiscard]] double with(std::size_t i, bool before, bool again) const {
    const LayerChoice& layer = layers_[i];
    const auto saved = static_cast<double>(border(layer, before, again) - (again ? layer.freed_bytes : 0));
    return (again ? static_cast<double>(layer.forward_ns) : 0) + price_ * saved + least_[i + 1][again];
  }

  // Returns the set with the least time less the price of what it frees. It is a corner of the convex hull.
  Set cheapest(double ns_per_byte) {
    price(ns_per_byte);
    Set set;
    bool before = false;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const bool again = with(i, before, true) < with(i, before, false);
      set = extended(set, i, before, again);
      before = again;
    }
    return set;
  }

  Set extended(Set set, std::size_t i, bool before, bool again) {
    const LayerChoice& layer = layers_[i];
    set.freed -= border(layer, before, again);
    if (!again) return set;
    set.ns += layer.forward_ns;
    set.freed += layer.freed_bytes;
    links_.push_back({static_cast<int>(i), set.last});
    set.last = static_cast<int>(links_.size()) - 1;
    return set;
  }

  void find_neighbours() {
    while (true) {
      const Set middle = cheapest(static_cast<double>(high_.ns - low_.ns) / static_cast<double>(high_.freed - low_.freed));
      if (middle.freed <= low_.freed || middle.ns >= high_.ns) return;
      (fits(middle) ? high_ : low_) = middle;
      if (high_.freed <= low_.freed) return;
    }
  }

  // Returns the sets that take less than high_ and free more than low_.
  Front between() {
    const double most_ns = static_cast<double>(high_.ns) - price_ * static_cast<double>(low_.freed);
    std::array<Front, 2> fronts{Front{Set{}}, Front{}};
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const auto grown = [&](bool before, bool again) {
        Front front;
        for (const Set& set : fronts[before]) {
          const Set longer = extended(set, i, before, again);
          const double least_ns = static_cast<double>(longer.ns) - price_ * static_cast<double>(longer.freed) + least_[i + 1][again];
          if (longer.ns < high_.ns && least_ns <= most_ns) front.push_back(longer);
        }
        found_.stored += std::ssize(fronts[before]);
        return front;
      };
      Front saved = merged(grown(false, false), grown(true, false));
      Front again = merged(grown(false, true), grown(true, true));
      fronts = {std::move(saved), std::move(again)};
    }
    Front front = merged(fronts[0], fronts[1]);
    std::erase_if(front, [&](const Set& set) { return set.freed <= low_.freed; });
    return front;
  }

  // The bytes freed grow with the time, so the first set that fits is found by bisection.
  void choose(const Front& front) {
    std::size_t low = 0, high = front.size();
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      fits(front[middle]) ? high = middle : low = middle + 1;
    }
    found_.layers = layers_of(high < front.size() ? front[high] : high_);
  }

  bool fits(const Set& set) {
    ++found_.tried;
    return fits_(layers_of(set));
  }

  [[nodiscard]] LayerSet layers_of(const Set& set) const {
    LayerSet layers(layers_.size());
    for (int at = set.last; at >= 0; at = links_[as_index(at)].before) layers[as_index(links_[as_index(at)].layer)] = true;
    return layers;
  }

  const std::vector<LayerChoice>& layers_;
  const std::function<bool(const LayerSet&)>& fits_;
  std::vector<std::array<double, 2>> least_;  // from layer i on, after a saved layer and after one that is computed again
  double price_ = 0;                          // price of a byte in least_
  std::vector<Link> links_;
  Set low_;   // does not fit
  Set high_;  // fits
  LeastSet found_;
};

}  // namespace

LeastSet least_set(const std::vector<LayerChoice>& layers, const std::function<bool(const LayerSet&)>& fits) {
  return Search(layers, fits).find();
}

}  // namespace mptune::planner
