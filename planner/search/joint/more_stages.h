#pragma once

#include <vector>

#include "planner/search/joint/family_table.h"
#include "planner/search/joint/local_search.h"
#include "planner/search/search_result.h"

namespace mptune::planner {

/// Searches more stages per device than FamilyTable::list() lists: one more each time, as long as StagesPerDevice says.
class MoreStages {
 public:
  /// Both arguments must outlive this object.
  MoreStages(FamilyTable& table, LocalSearch& local);

  /// Plans of up to `searched` stages per device were tried before, or of as many as the table lists. Families that are not searched are
  /// left out of the table, and counted and bounded by Choices.
  void search(int searched);
  /// Returns what search() tried.
  [[nodiscard]] const StagesPerDevice& stages_per_device() const { return tried_; }

 private:
  [[nodiscard]] int most_listed() const;
  void try_families(std::vector<PlanFamily> families);
  void leave_out(int virtual_stages, bool nothing_faster);
  void leave_out_slower(int virtual_stages, bool nothing_faster);

  FamilyTable& table_;
  Evaluator& evaluator_;
  LocalSearch& local_;
  StagesPerDevice tried_;
};

}  // namespace mptune::planner
