#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "mptune/planner/partition/prices.h"
#include "mptune/planner/partition/step_times.h"

namespace mptune {

/// The stages that a search still allows.
struct Windows {
  std::vector<std::vector<int>> begins;    ///< [s]: layers at which stage s may begin, ascending; [stages]: the end of the model
  std::vector<std::vector<int>> furthest;  ///< [s][first]: the last layer where a stage s that begins at `first` may end
  std::vector<std::vector<int>> nearest;   ///< [s][first]: the first one

  [[nodiscard]] int stages() const { return static_cast<int>(furthest.size()); }
  [[nodiscard]] bool allows(int stage, int first, int last) const {
    const auto s = static_cast<std::size_t>(stage);
    const auto at = static_cast<std::size_t>(first);
    return last >= nearest[s][at] && last <= furthest[s][at];
  }
  /// True if some stage may begin nowhere.
  [[nodiscard]] bool empty() const;
};

/// Lower bounds from ways through the step. The length of a way is a sum over stages and cuts, so the least that it can be before and
/// behind any cut are shortest paths over the cuts; and whatever the ways, no plan is faster than one of its ways is long.
class WayBounds {
 public:
  static constexpr std::int64_t kFar = std::int64_t{1} << 60;
  /// Means of ways are for steps below it: three days.
  static constexpr std::int64_t kMostMixed = std::int64_t{1} << 48;

  /// `prices` must outlive this.
  WayBounds(const Prices& prices, int stages) : prices_(prices), stages_(stages) {}

  [[nodiscard]] int ways() const { return static_cast<int>(ways_.size()); }
  /// Adds a way, unless it is known; rest() of it is to be had after refresh().
  void add(const Way& way);
  /// Finds the least behind every cut; of the ways from `first_way` on.
  void refresh(const Windows& windows, int first_way = 0);

  /// What length() and rest() are compared with to keep a way within `limit_ns`: they are sums over the ways of a mean (Way::of).
  [[nodiscard]] std::int64_t scaled(int way, std::int64_t limit_ns) const {
    const int of = ways_[static_cast<std::size_t>(way)].way.of;
    if (of == 1) return limit_ns;
    return limit_ns < kMostMixed ? limit_ns * of : kFar - 1;
  }
  /// Length of a way up to `last`, copies over that cut included, if it is `before` at `first` and stage `stage` is [first, last).
  [[nodiscard]] std::int64_t through(int way, int stage, int first, int last, std::int64_t before) const {
    return before + length(ways_[static_cast<std::size_t>(way)].parts[static_cast<std::size_t>(stage)], first, last);
  }
  /// Least length of a way from `first`, where `stage` begins, to the end; kFar where no end can be reached.
  [[nodiscard]] std::int64_t rest(int way, int stage, int first) const {
    return ways_[static_cast<std::size_t>(way)].rest[static_cast<std::size_t>(stage)][static_cast<std::size_t>(first)];
  }
  [[nodiscard]] const Way& way(int way) const { return ways_[static_cast<std::size_t>(way)].way; }
  /// The longest of the ways on these cuts.
  [[nodiscard]] std::int64_t longest(const std::vector<int>& cuts) const;
  /// Drops from the windows what no plan uses that has all its ways within `limit_ns`, one way after the other; how many layers. rest()
  /// is to be had of all ways afterwards, unless the windows are empty.
  int narrow(std::int64_t limit_ns, Windows& windows);

 private:
  // A way within a stage, and over the cut behind it.
  struct Part {
    std::int64_t fixed_ns = 0;
    std::vector<std::pair<const RangeTable*, std::int64_t>> ranges;  // with their counts
    std::vector<std::int64_t> by_cut;
  };
  struct Bounded {
    Way way;
    std::vector<Part> parts;                      // per stage
    std::vector<std::vector<std::int64_t>> rest;  // [stage][first]
  };
  [[nodiscard]] static std::int64_t length(const Part& part, int first, int last) {
    std::int64_t ns = part.fixed_ns + (part.by_cut.empty() ? 0 : part.by_cut[static_cast<std::size_t>(last)]);
    for (const auto& [table, count] : part.ranges) ns += count * table->at(first, last);
    return ns;
  }
  void add_slot(int slot, std::int64_t count, Part& part) const;
  void find_rest(const Windows& windows, Bounded& way) const;
  int narrow_by(int way, std::int64_t limit_ns, Windows& windows) const;

  const Prices& prices_;
  int stages_;
  std::vector<Bounded> ways_;
};

/// Lower bound of the slowest device: with every stage goes a way along its device, and the parts of those ways before and behind the
/// device's own work are shared. The least, over all cuts, of the longest of these ways is a min-max shortest path.
class BalanceBound {
 public:
  /// `rows`: a way of each stage along its device. `prices` must outlive this.
  BalanceBound(const Prices& prices, std::vector<Way> rows);

  void refresh(const Windows& windows);
  [[nodiscard]] const std::vector<Way>& rows() const { return rows_; }
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
  std::vector<Way> rows_;
  Terms own_;
  Terms passing_;
  std::vector<std::vector<std::int64_t>> rest_;
};

}  // namespace mptune
