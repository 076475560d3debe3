#pragma once

#include <cstdint>
#include <vector>

#include "planner/partition/balance_bound.h"
#include "planner/partition/cut_rater.h"
#include "planner/partition/family.h"
#include "planner/partition/partition.h"
#include "planner/partition/path_bounds.h"
#include "planner/partition/windows.h"

namespace mptune::planner {

/// Counts the nodes of a search and says when it has to end.
class SearchEffort {
 public:
  /// `problem` must outlive this object.
  explicit SearchEffort(const PartitionProblem& problem);

  void add(std::int64_t nodes) { nodes_ += nodes; }
  [[nodiscard]] std::int64_t nodes() const { return nodes_; }
  /// True from the first interruption on.
  [[nodiscard]] bool ended() const { return ended_; }
  /// Call this at every node. It asks PartitionProblem::stop at some of them.
  bool interrupted();
  /// Call this before timing a plan. The longer timing takes, the more often it asks PartitionProblem::stop; it always asks if timing is a
  /// simulation.
  bool interrupted_before_plan();

 private:
  const PartitionProblem& problem_;
  std::int64_t nodes_ = 0;
  std::int64_t plans_per_stop_check_;
  std::int64_t plans_ = 0;  // plans timed
  bool ended_ = false;
};

/// What a walk looks for.
struct WalkAim {
  enum class Goal : std::uint8_t {
    faster,  ///< plans faster than those listed
    tied     ///< plans as fast as the last one listed that rank before it
  };
  Goal goal = Goal::faster;
  double gap = 0;  ///< only plans faster than the best one by this share of its step; 0: no limit
};

/// Returns a whole number of nanoseconds below `ns * (1 - gap)` by at most 2: on the safe side of rounding.
[[nodiscard]] std::int64_t shortened_ns(std::int64_t ns, double gap);

/// Returns how long a path of a plan may be at most if the plan is to reach the aim.
[[nodiscard]] std::int64_t path_limit_ns(const WalkAim& aim, const CutRater& rater);

/// One walk over the cuts within given windows, depth first. Plans that it reaches are rated, and the paths they add prune the rest.
/// Several walks share rater and effort; all other state belongs to the walk.
class CutWalk {
 public:
  enum class End : std::uint8_t { complete, paused, interrupted };

  /// All arguments passed by reference must outlive this object. Requires: rater.paths().rest() is valid for `windows`.
  CutWalk(const Family& family, CutRater& rater, SearchEffort& effort, const BalanceBound& balance, const WalkAim& aim,
          const Windows& windows);

  /// Visits every plan that could reach the aim, unless it is interrupted or pauses after node `pause_at`.
  End run(std::int64_t pause_at);

 private:
  void visit(int stage);
  void descend(int stage, int first, int last);
  void probe(int stage, int last);
  void consider(const std::vector<int>& cuts);
  [[nodiscard]] bool within_paths(int stage, int first, int last);
  [[nodiscard]] bool fits(int stage, int first, int last);
  [[nodiscard]] bool may_rank(int stage, int first, int last);
  void adopt_paths();
  void find_copied_rest();

  const Family& family_;
  CutRater& rater_;
  PathBounds& paths_;
  SearchEffort& effort_;
  const WalkAim aim_;
  const Windows& windows_;
  BalanceBound balance_;
  int stages_;
  int layers_;
  std::int64_t limit_ns_;
  std::int64_t pause_at_ = 0;  // nodes
  bool paused_ = false;
  std::int64_t since_probe_ = 0;                        // nodes
  std::int64_t probe_after_;                            // nodes
  std::vector<int> cuts_;                               // cuts before the stage that is visited
  std::vector<std::vector<std::int64_t>> lengths_;      // [stage][path]: length up to where the stage begins
  std::vector<int> order_;                              // order of the paths: those that rule out most come first
  std::vector<std::int64_t> passed_;                    // [stage]: length that the stages before add to the device paths of all later ones
  std::vector<std::int64_t> copied_;                    // [stage]: bytes copied over the cuts before the stage
  std::vector<std::int64_t> peaks_;                     // [stage]: lower bound of the largest peak, by the stages before
  std::vector<std::vector<std::int64_t>> copied_rest_;  // [stage][first]: least bytes copied over later cuts
};

}  // namespace mptune::planner
