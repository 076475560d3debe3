#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "planner/partition/best_cuts.h"
#include "planner/partition/family.h"
#include "planner/partition/path_bounds.h"
#include "planner/partition/prices.h"
#include "planner/partition/stage_memory.h"
#include "planner/partition/step_times.h"

namespace mptune::planner {

/// Rates plans of a family and collects the best. If learns(), every plan that is timed adds its longest path to the bounds, unless the
/// path is known.
class CutRater {
 public:
  /// All arguments must outlive this object. Requires: at least as many layers as stages.
  CutRater(const PartitionProblem& problem, const CostModel& cost, const Family& family);

  /// Rates a plan and returns its step [ns]. The step is exact if it is at most `within_ns`, else a lower bound; PathBounds::kFar if the
  /// plan does not fit. A lower bound above `enough_ns`, which is not less than `within_ns`, need not be the best that is known.
  std::int64_t consider(const std::vector<int>& cuts, std::int64_t within_ns, std::int64_t enough_ns = PathBounds::kFar);

  [[nodiscard]] const Prices& prices() const { return prices_; }
  [[nodiscard]] std::int64_t step_cost_ns() const { return times_.step_cost_ns(); }
  /// Returns, for every stage, a path along one of its devices.
  [[nodiscard]] const std::vector<Path>& rows() const { return rows_; }
  /// Returns all paths known so far. Every plan that is timed may add one.
  [[nodiscard]] PathBounds& paths() { return paths_; }
  [[nodiscard]] const BestCuts& best() const { return best_; }
  [[nodiscard]] std::int64_t simulated() const { return simulated_; }
  [[nodiscard]] std::int64_t in_pieces() const { return memory_ ? memory_->in_pieces() : 0; }
  [[nodiscard]] bool ran_out_of_pieces() const { return memory_ && memory_->ran_out(); }

  /// True if a plan that is timed may add a path.
  [[nodiscard]] bool learns() const { return learns_; }
  /// True if a stage's memory depends on its layers alone. need(), furthest() and settle() require this.
  [[nodiscard]] bool knows_memory() const { return memory_.has_value(); }
  [[nodiscard]] const StageFit& need(int stage, int first, int last) { return memory_->need(stage, first, last); }
  [[nodiscard]] std::vector<int> furthest(int stage) const { return memory_->furthest(stage); }
  /// Sets the prices of the stage, with recomputation if its cap requires it. Returns false if the stage does not fit.
  [[nodiscard]] bool settle(int stage, int first, int last);

  /// The least excess over a cap, but no more than PartitionProblem::least_excess_known. It covers all plans where knows_memory(), else
  /// those considered. `bytes` is 0 if a plan fits, or if the windows allow no plan.
  struct Excess {
    std::int64_t bytes = 0;
    int device = -1;
  };
  [[nodiscard]] Excess smallest_excess(const Windows& allowed);

 private:
  [[nodiscard]] const RatedCuts& simulated(const std::vector<int>& cuts);
  [[nodiscard]] std::optional<RatedCuts> rated(const std::vector<int>& cuts, std::int64_t alone_ns);
  [[nodiscard]] bool settle(const std::vector<int>& cuts);
  using Found = std::pair<std::int64_t, int>;  // excess and device
  [[nodiscard]] Excess smallest_of_all(const Windows& allowed);
  [[nodiscard]] Found least_from(const std::vector<int>& ends, int stage, int first, const std::vector<Found>& rest);
  [[nodiscard]] int last_of(const std::vector<int>& cuts, int stage) const;

  const Family& family_;
  Prices prices_;
  StepTimes times_;
  bool learns_;  // all plans have the same rows, so a path of one is a path of all
  std::vector<Path> rows_;
  std::optional<StageMemory> memory_;
  bool exact_;  // times_ agrees with the simulator
  int layers_;
  std::int64_t least_excess_known_;
  PathBounds paths_;
  BestCuts best_;
  KnownRates rates_;   // rates of this search alone
  KnownRates& known_;  // rates that the search uses, without those that times_ tells exactly
  std::int64_t simulated_ = 0;
  bool any_fits_ = false;
  Excess least_seen_;
};

}  // namespace mptune::planner
