#pragma once

#include <cstdint>
#include <vector>

#include "planner/partition/prices.h"
#include "planner/partition/range_sum.h"
#include "planner/partition/step_times.h"
#include "planner/partition/windows.h"
#include "profiler/base/index.h"

namespace mptune::planner {

/// Lower bound from the slowest device. Each stage has a path along its device. The path also passes through earlier stages; what an
/// earlier stage adds to all later paths is counted once (passing()). The least length of the longest path over all cuts is a min-max
/// shortest path. The longer a stage, the longer its own path and the shorter the others, so the best end is sought from where the two
/// meet.
class BalanceBound {
 public:
  /// `rows` has a path of each stage along its device. `prices` must outlive this object.
  BalanceBound(const Prices& prices, std::vector<Path> rows);

  void refresh(const Windows& windows);
  [[nodiscard]] const std::vector<Path>& rows() const { return rows_; }
  /// Returns the least length of the longest device path of the stages from `stage` on, where `stage` begins at `first`, without the parts
  /// of earlier stages. PathBounds::kFar where no path reaches the end.
  [[nodiscard]] std::int64_t rest(int stage, int first) const { return rest_[as_index(stage)][as_index(first)]; }
  /// Returns what the stage with these layers, and the copies after it, add to the path of every later stage.
  [[nodiscard]] std::int64_t passing(int stage, int first, int last) const { return passing_[as_index(stage)].at(first, last); }
  /// Returns the cut after the stage that reaches rest(), -1 if none does. Requires: refresh() was last called with the same windows.
  [[nodiscard]] int best_last(const Windows& windows, int stage, int first) const { return best_end(windows, stage, first).last; }

 private:
  struct End {
    std::int64_t ns = 0;
    int last = -1;
  };
  // Values of one stage, by its end.
  struct Ends {
    std::vector<std::int64_t> behind;        // device paths of later stages, and what this stage adds to them except for its begin
    std::vector<std::int64_t> least_behind;  // the least value over all ends up to this one
    std::vector<std::int64_t> least_own;     // own path except for its begin, the least over all ends from this one on
  };
  [[nodiscard]] Ends ends_of(const Windows& windows, int stage) const;
  [[nodiscard]] End best_end(const Windows& windows, int stage, int first) const;
  void try_end(int stage, int first, int last, End& best) const;

  std::vector<Path> rows_;
  std::vector<RangeSum<std::int64_t>> own_;      // per stage
  std::vector<RangeSum<std::int64_t>> passing_;  // per stage
  std::vector<Ends> ends_;                       // per stage
  std::vector<std::vector<std::int64_t>> rest_;
};

}  // namespace mptune::planner
