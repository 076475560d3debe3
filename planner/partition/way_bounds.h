#pragma once

#include <cstdint>
#include <vector>

#include "mptune/planner/partition/prices.h"
#include "mptune/planner/partition/step_times.h"

namespace mptune {

/// The stages that a search still allows.
struct Windows {
  std::vector<std::vector<int>> begins;    ///< [s]: layers at which stage s may begin, ascending; [stages]: the end of the model
  std::vector<std::vector<int>> furthest;  ///< [s][first]: last layer behind which a stage s that begins at `first` can't fit

  [[nodiscard]] int stages() const { return static_cast<int>(furthest.size()); }
  [[nodiscard]] bool allows(int stage, int first, int last) const {
    return last > first && last <= furthest[static_cast<std::size_t>(stage)][static_cast<std::size_t>(first)];
  }
  /// True if some stage may begin nowhere.
  [[nodiscard]] bool empty() const;
};

/// Lower bounds from ways through the step. The length of a way is a sum over stages and cuts, so the least that it can be before and
/// behind any cut are shortest paths over the cuts; and whatever the ways, no plan is faster than one of its ways is long.
class WayBounds {
 public:
  static constexpr std::int64_t kFar = std::int64_t{1} << 60;

  /// `prices` must outlive this.
  explicit WayBounds(const Prices& prices) : prices_(prices) {}

  [[nodiscard]] int ways() const { return static_cast<int>(ways_.size()); }
  /// Index of the way; known ones are not added again.
  int add(const Way& way, const Windows& windows);
  /// Finds anew the least behind every cut.
  void refresh(const Windows& windows);

  /// Length of a way up to `last`, copies over that cut included, if it is `before` at `first` and stage `stage` is [first, last).
  [[nodiscard]] std::int64_t through(int way, int stage, int first, int last, std::int64_t before) const {
    const Bounded& w = ways_[static_cast<std::size_t>(way)];
    for (const Term& term : w.terms[static_cast<std::size_t>(stage)]) before += term.count * prices_.ns(term.slot, first, last);
    return before;
  }
  /// Least length of a way from `first`, where `stage` begins, to the end; kFar where no end can be reached.
  [[nodiscard]] std::int64_t rest(int way, int stage, int first) const {
    return ways_[static_cast<std::size_t>(way)].rest[static_cast<std::size_t>(stage)][static_cast<std::size_t>(first)];
  }
  /// Drops from the windows what no plan uses that has all its ways within `limit_ns`. True if anything was dropped: then refresh.
  bool narrow(std::int64_t limit_ns, Windows& windows) const;

 private:
  struct Term {
    int slot = 0;
    std::int64_t count = 0;
  };
  struct Bounded {
    Way way;
    std::vector<std::vector<Term>> terms;         // per stage
    std::vector<std::vector<std::int64_t>> rest;  // [stage][first]
  };
  void find_rest(const Windows& windows, Bounded& way) const;
  bool narrow_by(int way, std::int64_t limit_ns, Windows& windows) const;

  const Prices& prices_;
  std::vector<Bounded> ways_;
};

/// Lower bound of the slowest device: with every stage goes a way along its device, and the parts of those ways before and behind the
/// device's own work are shared. The least, over all cuts, of the longest of these ways is a min-max shortest path.
class BalanceBound {
 public:
  /// `rows`: a way of each stage along its device. `prices` must outlive this.
  BalanceBound(const Prices& prices, std::vector<Way> rows);

  void refresh(const Windows& windows);
  /// Least length of the longest row way of the stages from `stage` on, which begins at `first`; the parts of stages before not counted.
  [[nodiscard]] std::int64_t rest(int stage, int first) const {
    return rest_[static_cast<std::size_t>(stage)][static_cast<std::size_t>(first)];
  }
  /// What the stage with these layers, and the copies behind it, add to the ways of all later stages.
  [[nodiscard]] std::int64_t passing(int stage, int first, int last) const { return sum(passing_, stage, first, last); }
  /// The cut behind the stage that reaches rest(), -1 if none does.
  [[nodiscard]] int best_last(const Windows& windows, int stage, int first) const;

 private:
  using Terms = std::vector<std::vector<std::pair<int, std::int64_t>>>;  // per stage: slot and count
  [[nodiscard]] std::int64_t sum(const Terms& terms, int stage, int first, int last) const;
  [[nodiscard]] std::int64_t longest(int stage, int first, int last) const;

  const Prices& prices_;
  Terms own_;
  Terms passing_;
  std::vector<std::vector<std::int64_t>> rest_;
};

}  // namespace mptune
