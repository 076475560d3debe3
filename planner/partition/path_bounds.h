#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "planner/partition/prices.h"
#include "planner/partition/range_minimum.h"
#include "planner/partition/range_sum.h"
#include "planner/partition/step_times.h"
#include "planner/partition/windows.h"
#include "profiler/base/index.h"

namespace mptune::planner {

/// Lower bounds from paths through the step: no plan is faster than any of its paths is long.
/// The length of a path is a sum over stages and cuts, so its least length before and after a cut is a shortest-path problem over the cuts.
/// A stage's part is a difference of sums over layers: the nearest way on from a layer is a least value in a range, found at once.
class PathBounds {
 public:
  static constexpr std::int64_t kFar = std::int64_t{1} << 60;
  /// Stays beyond kFar, whatever is added to it or taken from it.
  static constexpr std::int64_t kNoWay = std::int64_t{1} << 62;
  /// Path mixtures are used only for steps shorter than this (an hour): their lengths are counted some thousand times.
  static constexpr std::int64_t kMostMixed = std::int64_t{1} << 42;

  /// `prices` must outlive this object.
  PathBounds(const Prices& prices, int stages) : prices_(prices), stages_(stages) {}

  [[nodiscard]] int paths() const { return static_cast<int>(paths_.size()); }
  /// Adds a path, unless it is known. Its rest() is valid after refresh().
  void add(const Path& path);
  /// Finds rest() of the paths from `first_path` on.
  void refresh(const Windows& windows, int first_path = 0);

  /// Returns the limit that through() and rest() of a path are compared with; a mixture counts `Path::of` times.
  [[nodiscard]] std::int64_t scaled(int path, std::int64_t limit_ns) const {
    const int of = paths_[as_index(path)].path.of;
    if (of == 1) return limit_ns;
    return limit_ns < kMostMixed ? limit_ns * of : kFar - 1;
  }
  /// Returns the length of a path up to `last`, copies over that cut included, where stage `stage` is [first, last). `before` is its length
  /// up to `first`.
  [[nodiscard]] std::int64_t through(int path, int stage, int first, int last, std::int64_t before) const {
    return before + paths_[as_index(path)].parts[as_index(stage)].at(first, last);
  }
  /// Returns the least length of a path from `first`, where `stage` begins, to the end; kFar where no end can be reached.
  [[nodiscard]] std::int64_t rest(int path, int stage, int first) const {
    return paths_[as_index(path)].rest[as_index(stage)][as_index(first)];
  }
  [[nodiscard]] const Path& path(int path) const { return paths_[as_index(path)].path; }
  /// Returns the longest path's length on these cuts. Where paths are longer than `enough_ns`, it returns the length of any of these.
  [[nodiscard]] std::int64_t longest(const std::vector<int>& cuts, std::int64_t enough_ns = kFar);
  /// Drops from the windows what only plans with a path longer than `limit_ns` use. Returns how many layers it dropped. rest() of all paths
  /// is valid afterwards, unless the windows are empty.
  int narrow(std::int64_t limit_ns, Windows& windows);

 private:
  struct Bounded {
    Path path;
    std::vector<RangeSum<std::int64_t>> parts;    // per stage: the path within it, and over the cut after it
    std::vector<std::vector<std::int64_t>> rest;  // [stage][first]
  };
  [[nodiscard]] std::int64_t length(const Bounded& path, const std::vector<int>& cuts) const;
  void find_rest(const Windows& windows, Bounded& path);
  [[nodiscard]] std::int64_t least_rest(const Windows& windows, const Bounded& path, int stage, int first) const;
  int narrow_by(int path, std::int64_t limit_ns, Windows& windows);
  [[nodiscard]] std::vector<std::int64_t> narrow_stage(const Bounded& path, int stage, std::int64_t limit,
                                                       const std::vector<std::int64_t>& before, Windows& windows) const;
  [[nodiscard]] std::pair<int, int> reach(const Windows& windows, const Bounded& path, int stage, int first, std::int64_t left) const;

  const Prices& prices_;
  int stages_;
  std::vector<Bounded> paths_;
  std::size_t exceeded_ = 0;                      // the last path that was longer than enough, which is tried first on similar cuts
  std::vector<RangeMinimum<std::int64_t>> ends_;  // [stage][last], of the path whose rest was found last
};

}  // namespace mptune::planner
