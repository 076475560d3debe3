#pragma once

#include <cstdint>
#include <vector>

#include "mptune/planner/cost/cost_model.h"
#include "mptune/planner/partition/partition.h"
#include "mptune/planner/plan.h"

namespace mptune {

/// A plan of a family with everything that ranks it.
struct RatedCuts {
  std::vector<int> cuts;
  std::int64_t step_ns = 0;
  std::int64_t copied_bytes = 0;
  std::int64_t peak_bytes = 0;
  std::int64_t excess_bytes = 0;  ///< most bytes over a cap; above 0 the plan does not fit and step_ns is not set
  int excess_device = -1;
  std::vector<int> recomputed;
};

/// Faster first, then fewer bytes copied, then less memory, then the order of the cuts.
[[nodiscard]] bool ranks_before(const RatedCuts& a, const RatedCuts& b);

/// The plans of a family one by one, by the simulator itself: right for every schedule, some hundred microseconds each.
class Family {
 public:
  /// Both must outlive this. Throws as partition() does.
  Family(const PartitionProblem& problem, const CostModel& cost);

  /// The plan with these cuts, rows made, the stages recomputed that must be and those listed.
  [[nodiscard]] Plan plan(const std::vector<int>& cuts, const std::vector<int>& recomputed) const;
  [[nodiscard]] RatedCuts rate(const std::vector<int>& cuts) const;
  [[nodiscard]] std::int64_t copied_bytes(const std::vector<int>& cuts) const;

  [[nodiscard]] int stages() const { return static_cast<int>(problem_.stages.size()); }
  [[nodiscard]] std::int64_t cap(int device) const;

 private:
  void rate_memory(const Plan& plan, RatedCuts& rated) const;

  const PartitionProblem& problem_;
  const CostModel& cost_;
};

}  // namespace mptune
