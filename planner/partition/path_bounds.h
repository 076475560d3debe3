#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "planner/partition/prices.h"
#include "planner/partition/step_times.h"
#include "profiler/base/index.h"

namespace mptune::planner {

/// The layer ranges of stages that a search has not excluded.
struct Windows {
  std::vector<std::vector<int>> begins;    ///< [s]: layers at which stage s may begin, ascending; [stages()]: the end of the model
  std::vector<std::vector<int>> furthest;  ///< [s][first]: the largest end of a stage s that begins at `first`
  std::vector<std::vector<int>> nearest;   ///< [s][first]: the smallest end

  [[nodiscard]] int stages() const { return static_cast<int>(furthest.size()); }
  [[nodiscard]] bool allows(int stage, int first, int last) const {
    const auto s = as_index(stage);
    const auto at = as_index(first);
    return last >= nearest[s][at] && last <= furthest[s][at];
  }
  /// True if some stage may begin nowhere.
  [[nodiscard]] bool empty() const;
};

/// Lower bounds from paths through the step: no plan is faster than any of its paths is long.
/// The length of a path is a sum over stages and cuts, so its least length before and behind a cut is a shortest-path problem over the
/// cuts.
class PathBounds {
 public:
  static constexpr std::int64_t kFar = std::int64_t{1} << 60;
  /// Path mixtures are used only for steps shorter than this (three days).
  static constexpr std::int64_t kMostMixed = std::int64_t{1} << 48;

  /// `prices` must outlive this.
  PathBounds(const Prices& prices, int stages) : prices_(prices), stages_(stages) {}

  [[nodiscard]] int paths() const { return static_cast<int>(paths_.size()); }
  /// Adds a path, unless it is known. Its rest() is valid after refresh().
  void add(const Path& path);
  /// Finds rest() of the paths from `first_path` on.
  void refresh(const Windows& windows, int first_path = 0);

  /// The limit that through() and rest() of a path are compared with; a mixture counts `Path::of` times.
  [[nodiscard]] std::int64_t scaled(int path, std::int64_t limit_ns) const {
    const int of = paths_[as_index(path)].path.of;
    if (of == 1) return limit_ns;
    return limit_ns < kMostMixed ? limit_ns * of : kFar - 1;
  }
  /// Length of a path up to `last`, copies over that cut included, where stage `stage` is [first, last).
  /// `before`: its length up to `first`.
  [[nodiscard]] std::int64_t through(int path, int stage, int first, int last, std::int64_t before) const {
    return before + length(paths_[as_index(path)].parts[as_index(stage)], first, last);
  }
  /// Least length of a path from `first`, where `stage` begins, to the end; kFar where no end can be reached.
  [[nodiscard]] std::int64_t rest(int path, int stage, int first) const {
    return paths_[as_index(path)].rest[as_index(stage)][as_index(first)];
  }
  [[nodiscard]] const Path& path(int path) const { return paths_[as_index(path)].path; }
  /// The longest of the paths on these cuts.
  [[nodiscard]] std::int64_t longest(const std::vector<int>& cuts) const;
  /// Drops from the windows what only plans with a path longer than `limit_ns` use. Returns how many layers it dropped.
  /// rest() of all paths is valid afterwards, unless the windows are empty.
  int narrow(std::int64_t limit_ns, Windows& windows);

 private:
  // A path within a stage, and over the cut behind it.
  struct Part {
    std::int64_t fixed_ns = 0;
    std::vector<std::pair<const RangeTable*, std::int64_t>> ranges;  // with their counts
    std::vector<std::int64_t> by_cut;
  };
  struct Bounded {
    Path path;
    std::vector<Part> parts;                      // per stage
    std::vector<std::vector<std::int64_t>> rest;  // [stage][first]
  };
  [[nodiscard]] static std::int64_t length(const Part& part, int first, int last) {
    std::int64_t ns = part.fixed_ns + (part.by_cut.empty() ? 0 : part.by_cut[as_index(last)]);
    for (const auto& [table, count] : part.ranges) ns += count * table->at(first, last);
    return ns;
  }
  void add_slot(int slot, std::int64_t count, Part& part) const;
  void find_rest(const Windows& windows, Bounded& path) const;
  int narrow_by(int path, std::int64_t limit_ns, Windows& windows) const;

  const Prices& prices_;
  int stages_;
  std::vector<Bounded> paths_;
};

/// Lower bound from the slowest device. Each stage has a path along its device. The path also passes through earlier stages; what such a
/// stage adds to all later paths is counted once (passing()). The least length of the longest path over all cuts is a min-max shortest
/// path.
class BalanceBound {
 public:
  /// `rows`: a path of each stage along its device. `prices` must outlive this.
  BalanceBound(const Prices& prices, std::vector<Path> rows);

  void refresh(const Windows& windows);
  [[nodiscard]] const std::vector<Path>& rows() const { return rows_; }
  /// Least length of the longest device path of the stages from `stage` on, which begins at `first`, without the parts of earlier stages.
  [[nodiscard]] std::int64_t rest(int stage, int first) const { return rest_[as_index(stage)][as_index(first)]; }
  /// What the stage with these layers, and the copies behind it, add to the path of every later stage.
  [[nodiscard]] std::int64_t passing(int stage, int first, int last) const { return sum(passing_, stage, first, last); }
  /// The cut behind the stage that reaches rest(), -1 if none does.
  [[nodiscard]] int best_last(const Windows& windows, int stage, int first) const;

 private:
  using Terms = std::vector<std::vector<std::pair<int, std::int64_t>>>;  // per stage: slot and count
  [[nodiscard]] std::int64_t sum(const Terms& terms, int stage, int first, int last) const;
  [[nodiscard]] std::int64_t longest(int stage, int first, int last) const;

  const Prices& prices_;
  std::vector<Path> rows_;
  Terms own_;
  Terms passing_;
  std::vector<std::vector<std::int64_t>> rest_;
};

}  // namespace mptune::planner
