#pragma once

#include <cstdint>
#include <vector>

#include "mptune/planner/partition/cut_rater.h"
#include "mptune/planner/partition/family.h"
#include "mptune/planner/partition/partition.h"
#include "mptune/planner/partition/path_bounds.h"

namespace mptune {

/// Branch and bound, depth first over the cuts. A plan that is too slow has a longest path; every plan on which that path is as long is too
/// slow as well. So each timed plan adds its longest path, and some dozens of paths usually rule out all plans but the best.
/// Where they do not, as with several stages per device, path mixtures raise the bound and narrow the windows (path_mixture.h).
class CutSearch {
 public:
  /// All must outlive this. Requires: at least as many layers as stages.
  CutSearch(const PartitionProblem& problem, const CostModel& cost, const Family& family);

  PartitionResult run();

 private:
  // faster: than the plans listed. tied: as fast, and ranked before the last one listed.
  enum class Goal : std::uint8_t { faster, tied };

  void open_windows();
  void bound_all();
  void prove();
  // Visits every plan that could reach the goal and is faster than the best by `gap`; false if it was ended first.
  bool exhaust(Goal goal, double gap, std::int64_t most_nodes);
  void set_limit();
  [[nodiscard]] bool narrow(Windows& windows);
  [[nodiscard]] bool refute(Windows& windows);
  [[nodiscard]] bool refuted_by_bounds();
  void raise_bound();
  void start_walk();
  void visit(int stage);
  void descend(int stage, int first, int last);
  void probe(int stage, int last);
  void consider(const std::vector<int>& cuts);
  [[nodiscard]] bool within_paths(int stage, int first, int last);
  [[nodiscard]] bool fits(int stage, int first, int last);
  [[nodiscard]] bool may_rank(int stage, int first, int last);
  void adopt_paths();
  [[nodiscard]] bool interrupted();
  [[nodiscard]] bool interrupted_before_plan();
  [[nodiscard]] bool may_rate();
  void find_copied_rest();
  [[nodiscard]] PartitionResult finish();

  const PartitionProblem& problem_;
  const CostModel& cost_;
  const Family& family_;
  CutRater rater_;
  PathBounds& paths_;
  BalanceBound balance_;
  int stages_;
  int layers_;
  Windows allowed_;   // all that the family allows
  Windows entering_;  // without what is too slow to be kept
  Windows windows_;   // of the search that runs
  PartitionResult result_;

  // Of the search that runs.
  Goal goal_ = Goal::faster;
  double gap_ = 0;
  std::int64_t limit_ns_ = 0;  // of the paths
  std::int64_t pause_at_ = 0;  // nodes
  bool paused_ = false;
  bool ended_ = false;
  std::int64_t since_probe_ = 0;                    // nodes
  std::int64_t probe_after_ = 0;                    // nodes
  std::vector<int> cuts_;                           // of the stages above
  std::vector<std::vector<std::int64_t>> lengths_;  // [stage][path]: up to where the stage begins
  std::vector<std::int64_t> passed_;                // [stage]: likewise, what all later rows pass
  std::vector<std::int64_t> copied_;                // [stage]: bytes copied over the cuts above
  std::vector<std::int64_t> peaks_;                 // [stage]: bytes that a device needs at least for the stages above
  std::vector<int> order_;                          // of the paths: those that rule out most come first
  std::vector<std::vector<std::int64_t>> copied_rest_;
};

}  // namespace mptune
