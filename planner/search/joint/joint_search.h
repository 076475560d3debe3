#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/search/joint/evaluator.h"
#include "planner/search/joint/family_table.h"
#include "planner/search/joint/list_search.h"
#include "planner/search/joint/local_search.h"
#include "planner/search/joint/more_stages.h"
#include "planner/search/joint/partition_search.h"
#include "planner/search/joint/rated_families.h"

namespace mptune::planner {

/// One search within given caps, in parts that are called one after another. Each part ends early if the evaluator's work is spent.
class JointSearch {
 public:
  /// All arguments passed by reference must outlive this object. `caps` are per device of the space, 0: none. `rated` has plans rated by
  /// searches with the same costs, and by this one.
  JointSearch(const SearchSpace& space, const CostModel& cost, std::vector<std::int64_t> caps, int keep, RatedFamilies& rated);

  /// Restricts pipelines to those with replicas (true) or without (false). Requires: called before the parts of the search.
  void only_replicated(bool replicated) { table_.only_replicated(replicated); }

  /// Simulates each plan of one stage.
  void one_stage();
  /// Finds the best pipeline: first one plan of each promising family, then families in the order of their bounds, with more and more
  /// effort; then families that partition() can't bound well.
  void pipelines();
  /// Finds the next best pipelines, and what helping idle devices make of those ranked. Leaves the proofs of families as they are.
  void alternatives();
  /// Finds plans that can't be executed and are faster than every executable plan.
  void beyond();
  /// Counts what was left out, and why.
  void count_rejected();

  Evaluator& evaluator() { return table_.evaluator(); }
  [[nodiscard]] const std::vector<FamilyState>& families() const { return table_.states(); }
  [[nodiscard]] const StagesPerDevice& stages_per_device() const { return more_stages_.stages_per_device(); }
  /// Returns a bound: no executable plan takes less.
  [[nodiscard]] double lower_bound_s() const;

 private:
  void try_given_cuts();
  void try_seeds();

  FamilyTable table_;
  PartitionSearch partitions_;
  LocalSearch local_;
  ListSearch lists_;
  MoreStages more_stages_;
};

}  // namespace mptune::planner
