#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/parallelism.h"
#include "planner/partition/partition.h"
#include "planner/search/evaluator.h"
#include "planner/search/families.h"

namespace mptune::planner {

/// What a search has proved of a family.
struct FamilyProof {
  std::int64_t lower_ns = 0;  ///< no plan of it takes less
  bool solved = false;        ///< it holds no better plan of its kind than the best one known
  bool exhausted = false;     ///< searched to its end without a proof: there is no bound for what memory makes of its plans
  bool operator==(const FamilyProof&) const = default;
};

/// What is known of a family so far.
struct FamilyState {
  PlanFamily family;
  FamilyProof proof;      ///< by pipelines() and beyond()
  double best_s = 0;      ///< of the plans seen, infinite: none that fits
  std::int64_t seen = 0;  ///< plans simulated by name
  bool fits = true;       ///< false: proved that no plan does
  int listed = 8;         ///< plans asked for where memory decides which of them counts
  bool asked_recomputed = false;
};

/// One search within given caps, in parts that are called one after another. Each may end early when the evaluator's work is spent.
class JointSearch {
 public:
  /// Both must outlive this. `caps` per device of the space, 0: none.
  JointSearch(const SearchSpace& space, const CostModel& cost, std::vector<std::int64_t> caps, int keep);

  /// Of pipelines, those with replicas alone (true) or without (false). To be called first.
  void only_replicated(bool replicated) { only_replicated_ = replicated; }

  /// Plans of one stage, each simulated.
  void one_stage();
  /// The best pipeline: first one plan of each promising family, then families in the order of their bounds, with more and more effort.
  void pipelines();
  /// The next best pipelines. Leaves the proofs of families as they are.
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

  // What a family is searched for: the best pipeline, or those behind it.
  enum class Goal : std::uint8_t { best, alternatives };
  // One search of a family.
  struct Attempt {
    Goal goal = Goal::best;
    std::int64_t most_nodes = 0;
    FamilyProof proof;  // what was proved before, and by this attempt
  };
  [[nodiscard]] double threshold_s(Goal goal) const;
  [[nodiscard]] std::int64_t threshold_ns(Goal goal) const;
  [[nodiscard]] bool memory_chooses(const FamilyState& state) const;
  [[nodiscard]] PartitionProblem problem_of(const FamilyState& state, Goal goal, std::int64_t most_nodes);
  PartitionResult run(const FamilyState& state, const PartitionProblem& problem);
  void solve(FamilyState& state, Attempt& attempt);
  void solve_with_memory(FamilyState& state, Attempt& attempt);
  void try_found(FamilyState& state, Plan plan, bool rows_are_fixed);
  void ask_recomputed(FamilyState& state, Attempt& attempt, bool rows_are_fixed);
  void solve_beyond(FamilyState& state, double longest_s);

  const SearchSpace& space_;
  const CostModel& cost_;
  std::vector<std::int64_t> caps_;
  Choices choices_;
  Evaluator evaluator_;
  std::vector<FamilyState> states_;
  int keep_;
  std::optional<bool> only_replicated_;
};

}  // namespace mptune::planner
