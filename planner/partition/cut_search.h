#pragma once

#include <cstdint>

#include "planner/partition/balance_bound.h"
#include "planner/partition/cut_rater.h"
#include "planner/partition/cut_walk.h"
#include "planner/partition/family.h"
#include "planner/partition/partition.h"
#include "planner/partition/path_bounds.h"
#include "planner/partition/windows.h"

namespace mptune::planner {

/// Branch and bound, depth first over the cuts. A plan that is too slow has a longest path, and every plan on which that path is as long is
/// too slow as well. So each timed plan adds its longest path, and some dozens of paths usually rule out all plans but the best. Where they
/// do not, as with several stages per device, path mixtures raise the bound and narrow the windows (path_mixture.h).
class CutSearch {
 public:
  /// All arguments must outlive this object. Requires: at least as many layers as stages.
  CutSearch(const PartitionProblem& problem, const CostModel& cost, const Family& family);

  PartitionResult run();

 private:
  void open_windows();
  void bound_all();
  void prove();
  bool exhaust(const WalkAim& aim, std::int64_t most_nodes);
  [[nodiscard]] bool narrow(std::int64_t limit_ns, Windows& windows);
  [[nodiscard]] bool refute(std::int64_t limit_ns, Windows& windows);
  [[nodiscard]] bool refuted_by_bounds(std::int64_t limit_ns);
  void raise_bound();
  [[nodiscard]] PartitionResult finish();

  const PartitionProblem& problem_;
  const CostModel& cost_;
  const Family& family_;
  CutRater rater_;
  SearchEffort effort_;
  PathBounds& paths_;
  BalanceBound balance_;
  int stages_;
  int layers_;
  Windows allowed_;   // all that the family allows
  Windows entering_;  // the same without plans too slow to be listed
  PartitionResult result_;
};

}  // namespace mptune::planner
