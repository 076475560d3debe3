#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mptune/planner/cost/cost_model.h"
#include "mptune/planner/search/ranking.h"
#include "mptune/planner/search/search.h"

namespace mptune {

inline constexpr const char* kTooLarge = "needs more memory than a device has";

/// Simulates plans within caps, ranks those that fit and counts the others.
class Evaluator {
 public:
  /// `cost` must outlive this.
  Evaluator(const CostModel& cost, bool allow_recompute, int keep);

  /// Seconds of the plan's step, or infinity where it does not fit. `caps` per device of the plan, 0: none.
  /// The stages of devices that would not hold the plan otherwise are recomputed, where that is allowed.
  double evaluate(RankedAs kind, Plan plan, const std::vector<std::int64_t>& caps);

  void reject(const char* reason, std::int64_t count);
  /// Notes that plans which were not simulated take at least this long.
  void lower_bound(double seconds);
  /// True if a plan that exceeds a cap by these bytes could still be the one that is reported: nothing fits so far, and it is the closest.
  [[nodiscard]] bool may_matter(std::int64_t excess_bytes) const;

  [[nodiscard]] std::int64_t actions() const { return actions_; }  ///< simulated so far
  Ranking& ranking() { return ranking_; }
  SearchResult& result() { return result_; }

 private:
  void note_excess(std::int64_t bytes, const std::string& device);

  const CostModel& cost_;
  bool allow_recompute_;
  Ranking ranking_;
  SearchResult result_;
  std::int64_t actions_ = 0;
  bool any_fits_ = false;
};

}  // namespace mptune
