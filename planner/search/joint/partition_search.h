#pragma once

#include <cstdint>
#include <string>

#include "planner/search/joint/family_solver.h"
#include "planner/search/joint/family_table.h"
#include "planner/search/joint/rated_families.h"
#include "planner/search/joint/work_share.h"

namespace mptune::planner {

/// Searches the families whose cuts partition() finds, in the order of their bounds. Requires: the space names no cuts.
class PartitionSearch {
 public:
  /// See FamilySolver.
  PartitionSearch(FamilyTable& table, RatedFamilies& rated, int keep);

  /// Searches with more and more effort, until all families are proved or the share of the work is spent.
  void search(SearchGoal goal, WorkShare share);
  /// Finds the next best pipelines of families that were searched. Leaves the proofs of families as they are.
  void alternatives();
  /// Finds plans that can't be executed and are faster than every executable plan.
  void beyond();

 private:
  [[nodiscard]] bool search_once(SearchGoal goal, std::int64_t nodes, const WorkShare& share);
  [[nodiscard]] double fastest_beyond_s(const std::string& schedule) const;

  FamilyTable& table_;
  Evaluator& evaluator_;
  FamilySolver solver_;
  int keep_;
};

}  // namespace mptune::planner
