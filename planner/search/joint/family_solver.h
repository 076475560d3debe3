#pragma once

#include <cstdint>

#include "planner/partition/partition.h"
#include "planner/search/joint/family_table.h"
#include "planner/search/joint/rated_families.h"

namespace mptune::planner {

/// Searches the cuts of one family with partition(), and evaluates the plans found.
class FamilySolver {
 public:
  /// `keep` plans are listed where the goal is alternatives. `rated` has plans rated by searches with the same costs, and by this one. Both
  /// arguments passed by reference must outlive this object.
  FamilySolver(FamilyTable& table, RatedFamilies& rated, int keep);

  /// One search of a family.
  struct Attempt {
    SearchGoal goal = SearchGoal::best;
    std::int64_t most_nodes = 0;
    FamilyProof proof;  ///< proof by earlier attempts and this one
  };
  /// Searches the family for the goal. `attempt.proof` then also has what this search proved.
  void solve(FamilyState& state, Attempt& attempt);
  /// Finds the fastest plan of a family that can't be executed, among those that take at most `longest_s`.
  void solve_beyond(FamilyState& state, double longest_s);
  /// True if memory caps decide what a plan recomputes. Then each search of a family lists more plans than the one before.
  [[nodiscard]] bool memory_chooses(const FamilyState& state) const;

 private:
  [[nodiscard]] std::int64_t least_excess_known();
  [[nodiscard]] PartitionProblem problem_of(const FamilyState& state, SearchGoal goal, std::int64_t most_nodes);
  PartitionResult run(const FamilyState& state, PartitionProblem& problem);
  void solve_with_memory(FamilyState& state, Attempt& attempt);
  void ask_recomputed(FamilyState& state, Attempt& attempt, bool rows_are_fixed);
  void ask_in_pieces(FamilyState& state, Attempt& attempt, PartitionProblem& problem, bool rows_are_fixed);
  PartitionResult try_recomputed(FamilyState& state, PartitionProblem& problem, bool rows_are_fixed);
  void try_found(FamilyState& state, Plan plan, bool rows_are_fixed);
  void note_excess(const PartitionResult& result, const PartitionProblem& problem);

  FamilyTable& table_;
  Evaluator& evaluator_;
  RatedFamilies& rated_;
  int keep_;
  std::int64_t pieces_work_left_;  // work left for ask_in_pieces(), in simulated actions
};

}  // namespace mptune::planner
