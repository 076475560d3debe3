#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mptune/planner/cost/cost_model.h"
#include "mptune/planner/parallelism.h"
#include "mptune/planner/partition/partition.h"
#include "mptune/planner/search/evaluator.h"
#include "mptune/planner/search/families.h"

namespace mptune {

/// What is known of a family so far.
struct FamilyState {
  PlanFamily family;
  std::int64_t lower_ns = 0;  ///< proved
  double best_s = 0;          ///< of the plans seen, infinite: none that fits
  std::int64_t seen = 0;      ///< plans simulated by name
  bool solved = false;        ///< it holds no better plan of its kind than the best one known
  bool exhausted = false;     ///< looked at to the end, without a proof: what memory makes of its plans has no bound
  bool fits = true;           ///< false: proved that no plan does
  int listed = 8;             ///< plans asked for where memory decides which of them counts
  bool asked_recomputed = false;
};

/// One search within given caps, chapter by chapter; each may end early when the evaluator's work is spent.
class JointSearch {
 public:
  /// Both must outlive this. `caps` per device of the space, 0: none.
  JointSearch(const SearchSpace& space, const CostModel& cost, std::vector<std::int64_t> caps, int keep);

  /// Of pipelines, those with replicas alone (true) or without (false). To be said before the first chapter.
  void only_replicated(bool replicated) { only_replicated_ = replicated; }

  /// Plans of one stage, each simulated.
  void one_stage();
  /// The best pipeline: one plan of each promising family first, then families in the order of their bounds, with more and more effort.
  void pipelines();
  /// The next best ones.
  void alternatives();
  /// Plans that can't be executed and are faster than all that can.
  void beyond();
  /// Counts what was left out, and why.
  void count_rejected();

  Evaluator& evaluator() { return evaluator_; }
  [[nodiscard]] const std::vector<FamilyState>& families() const { return states_; }
  /// Seconds below which no executable plan lies.
  [[nodiscard]] double lower_bound_s() const;

 private:
  void one_device();
  void try_one_stage(Parallelism kind, const std::vector<std::string>& devices, int m, const std::vector<std::int64_t>& caps);
  void list_families();
  void try_given_cuts();
  void try_seeds();
  void try_cuts(FamilyState& state, const std::vector<int>& cuts);
  void note(FamilyState& state, double step_s);

  [[nodiscard]] double threshold_s() const;
  [[nodiscard]] std::int64_t threshold_ns() const;
  [[nodiscard]] bool memory_chooses(const FamilyState& state) const;
  [[nodiscard]] PartitionProblem problem_of(const FamilyState& state, std::int64_t most_nodes);
  PartitionResult run(const FamilyState& state, const PartitionProblem& problem);
  void solve(FamilyState& state, std::int64_t most_nodes);
  void solve_with_memory(FamilyState& state, std::int64_t most_nodes);
  void try_found(FamilyState& state, Plan plan, bool rows_are_fixed);
  void ask_recomputed(FamilyState& state, std::int64_t most_nodes, bool rows_are_fixed);
  void solve_beyond(FamilyState& state, double longest_s);

  const SearchSpace& space_;
  const CostModel& cost_;
  std::vector<std::int64_t> caps_;
  Choices choices_;
  Evaluator evaluator_;
  std::vector<FamilyState> states_;
  int keep_;
  bool alternatives_ = false;  // what is looked for
  std::optional<bool> only_replicated_;
};

}  // namespace mptune
