#pragma once

#include <vector>

#include "planner/search/joint/family_table.h"

namespace mptune::planner {

/// Tries cuts of families one by one, where partition() can't bound the cuts well: idle devices help, or there are many stages per device.
class LocalSearch {
 public:
  /// `table` must outlive this object.
  explicit LocalSearch(FamilyTable& table);

  /// True for families that one_by_one() takes. Rows of `list` take too long to make.
  [[nodiscard]] static bool takes(const PlanFamily& family) { return family.executable() && !family.rows_are_searched(); }
  /// Tries cuts with a part of the work that is left: the cuts of plans seen; then all cuts of families with few, and neighbours of the
  /// best cuts of other promising families. A family is proved if each of its plans was simulated or has a bound (HelpingBound) above the
  /// best step.
  void one_by_one(std::vector<FamilyState*> states);
  /// Calls one_by_one() with the families whose idle devices help.
  void helping();
  /// Moves single cuts of the family's best plan to the next layers where a stage may begin, as long as that makes it faster; tries at most
  /// `most` sets of cuts, and none where no plan of the family fits.
  void improve(FamilyState& state, int most);
  /// Evaluates ranked plans with the same rows and with idle devices that help, if the table has families whose idle devices help.
  void help_ranked();

 private:
  void try_known_cuts(FamilyState& state);
  void try_all_cuts(FamilyState& state);

  FamilyTable& table_;
  Evaluator& evaluator_;
};

}  // namespace mptune::planner
