#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mptune/planner/partition/best_cuts.h"
#include "mptune/planner/partition/family.h"
#include "mptune/planner/partition/prices.h"
#include "mptune/planner/partition/stage_memory.h"
#include "mptune/planner/partition/step_times.h"
#include "mptune/planner/partition/way_bounds.h"

namespace mptune {

/// Rates plans of a family, keeps the best, and learns from each what rules out plans like it.
class CutRater {
 public:
  /// All must outlive this. Requires: at least as many layers as stages.
  CutRater(const PartitionProblem& problem, const CostModel& cost, const Family& family);

  /// Nanoseconds of a plan, exact if at most `within_ns`, else a lower bound of them; WayBounds::kFar where it does not fit.
  std::int64_t consider(const std::vector<int>& cuts, std::int64_t within_ns);

  [[nodiscard]] const Prices& prices() const { return prices_; }
  [[nodiscard]] std::int64_t step_cost_ns() const { return times_.step_cost_ns(); }
  /// For every stage a way along a device of it.
  [[nodiscard]] const std::vector<Way>& rows() const { return rows_; }
  /// All ways that are known; more with every plan that is timed.
  [[nodiscard]] WayBounds& ways() { return ways_; }
  [[nodiscard]] const BestCuts& best() const { return best_; }
  [[nodiscard]] std::int64_t simulated() const { return simulated_; }

  /// Whether a plan that is timed adds a way.
  [[nodiscard]] bool learns() const { return learns_; }
  /// Whether a stage's memory depends on nothing but its layers; only then may it be asked for.
  [[nodiscard]] bool knows_memory() const { return memory_.has_value(); }
  [[nodiscard]] const StageNeed& need(int stage, int first, int last) { return memory_->need(stage, first, last); }
  [[nodiscard]] std::vector<int> furthest(int stage) const { return memory_->furthest(stage); }
  /// Says whether the stage is recomputed; false if it does not fit.
  [[nodiscard]] bool settle(int stage, int first, int last);

  /// The least excess over a cap: of all plans where knows_memory(), else of those considered. Nothing where a plan fits, or none exists.
  struct Excess {
    std::int64_t bytes = 0;
    int device = -1;
  };
  [[nodiscard]] Excess smallest_excess(const Windows& allowed);
  /// True if a plan is known to fit.
  [[nodiscard]] bool any_fits() const { return any_fits_; }

 private:
  [[nodiscard]] std::optional<RatedCuts> rated(const std::vector<int>& cuts, std::int64_t alone_ns);
  [[nodiscard]] bool settle(const std::vector<int>& cuts);
  [[nodiscard]] Excess smallest_of_all(const Windows& allowed);
  [[nodiscard]] int last_of(const std::vector<int>& cuts, int stage) const;

  const Family& family_;
  Prices prices_;
  StepTimes times_;
  bool learns_;  // plans share their rows: a longest way of one is a way of all
  std::vector<Way> rows_;
  std::optional<StageMemory> memory_;
  bool exact_;  // times_ is the simulator's answer
  int layers_;
  WayBounds ways_;
  BestCuts best_;
  std::int64_t simulated_ = 0;
  bool any_fits_ = false;
  Excess least_seen_;
};

}  // namespace mptune
