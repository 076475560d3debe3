#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/partition/known_rates.h"
#include "planner/partition/partition.h"
#include "planner/plan/plan.h"

namespace mptune::planner {

/// Ranks faster plans first, then those with fewer bytes copied, then those with less memory, then by the order of the cuts.
[[nodiscard]] bool ranks_before(const RatedCuts& a, const RatedCuts& b);

/// Makes the plans of a family and rates them with the simulator. It works for every schedule and takes some hundred microseconds per plan.
class Family {
 public:
  /// Both arguments must outlive this object. Throws as partition() does.
  Family(const PartitionProblem& problem, const CostModel& cost);

  [[nodiscard]] int stages() const { return static_cast<int>(problem_.stages.size()); }
  /// Returns the cap of a device of the family; 0: none.
  [[nodiscard]] std::int64_t cap(int device) const;
  [[nodiscard]] bool has_caps() const;
  [[nodiscard]] bool always_recomputed(int stage) const;
  [[nodiscard]] bool recomputes_for_memory() const { return problem_.recompute_for_memory && has_caps(); }
  [[nodiscard]] bool pieces_may_fit() const { return most_in_pieces() > 0 && recomputes_for_memory(); }
  [[nodiscard]] std::int64_t most_in_pieces() const { return problem_.most_in_pieces; }
  /// True if all plans of the family have the same rows of actions.
  [[nodiscard]] bool rows_are_fixed() const;
  [[nodiscard]] bool one_stage_per_device() const;

  /// Returns the plan with these cuts and recomputed stages, with its rows.
  [[nodiscard]] Plan plan(const std::vector<int>& cuts, const std::vector<int>& recomputed) const;
  /// Returns any plan of the family, with every stage recomputed that may be. Requires: at least as many layers as stages.
  [[nodiscard]] Plan any_plan() const;
  [[nodiscard]] RatedCuts rate(const std::vector<int>& cuts) const;
  /// Returns the bytes copied over a cut before stage `stage`, in both directions, by all micro-batches.
  [[nodiscard]] std::int64_t copied_bytes(int stage, int cut) const;

 private:
  void rate_memory(const Plan& plan, RatedCuts& rated) const;
  [[nodiscard]] std::vector<int> recomputed_for_memory(const Plan& plan) const;

  const PartitionProblem& problem_;
  const CostModel& cost_;
};

}  // namespace mptune::planner
