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
#include "planner/search/rated_families.h"

namespace mptune::planner {

/// What a search has proved of a family.
struct FamilyProof {
  std::int64_t lower_ns = 0;  ///< no plan of the family takes less
  bool solved = false;        ///< proved: the family holds no better pipeline than the best one known
  bool exhausted = false;     ///< searched completely, but without a proof: no bound covers its plans under memory caps
  bool operator==(const FamilyProof&) const = default;
};

/// What is known of a family so far.
struct FamilyState {
  PlanFamily family;
  FamilyProof proof;              ///< proved by pipelines() and beyond()
  double best_s = 0;              ///< fastest of the plans seen; infinity: none of them fits
  std::vector<int> best_cuts;     ///< cuts of the fastest plan
  std::int64_t seen = 0;          ///< plans given to the evaluator
  bool fits = true;               ///< false: proved that no plan fits the caps
  int listed = 8;                 ///< with memory caps: plans to request from the next search of the cuts; grows
  bool asked_recomputed = false;  ///< searched with whole stages recomputed
  bool further = false;           ///< listed by more_stages()
  bool sharp = false;             ///< the family's bound was sharpened
};

/// One search within given caps, in parts that are called one after another. Each part ends early if the evaluator's work is spent.
class JointSearch {
 public:
  /// All arguments passed by reference must outlive this object. `caps` are per device of the space, 0: none. `rated` has plans rated by
  /// searches with the same costs, and by this one.
  JointSearch(const SearchSpace& space, const CostModel& cost, std::vector<std::int64_t> caps, int keep, RatedFamilies& rated);

  /// Restricts pipelines to those with replicas (true) or without (false). Requires: called before the parts of the search.
  void only_replicated(bool replicated) { only_replicated_ = replicated; }

  /// Simulates each plan of one stage.
  void one_stage();
  /// Finds the best pipeline: first one plan of each promising family, then families in the order of their bounds, with more and more
  /// effort.
  void pipelines();
  /// Tries helping idle devices: the plans seen, with the same cuts; then all cuts of families with few, and the neighbours of the best
  /// cuts of other families. A family is proved if each of its plans was simulated or has a bound (HelpingBound) above the best step.
  void helping();
  /// Searches more stages per device than families() has, as helping() does: one more each time, as long as StagesPerDevice says.
  void more_stages();
  /// Where there are other schedules beside `list`, tries a few `list` plans of each of the families with the smallest bounds, as far as a
  /// part of the work allows. Where all devices are alike, it also tries families with more stages per device, as long as these are faster.
  void first_lists();
  /// Tries `list` plans on the devices and micro-batches where plans of other schedules are fastest, with their cuts and some neighbours.
  /// This proves nothing: making the rows takes as long as dozens of simulations.
  void lists();
  /// Finds the next best pipelines, and what helping idle devices make of those ranked. Leaves the proofs of families as they are.
  void alternatives();
  /// Finds plans that can't be executed and are faster than every executable plan.
  void beyond();
  /// Counts what was left out, and why.
  void count_rejected();

  Evaluator& evaluator() { return evaluator_; }
  [[nodiscard]] const std::vector<FamilyState>& families() const { return states_; }
  [[nodiscard]] const StagesPerDevice& stages_per_device() const { return stages_per_device_; }
  /// Returns a bound: no executable plan takes less.
  [[nodiscard]] double lower_bound_s() const;

 private:
  void one_device();
  void try_one_stage(Parallelism kind, const std::vector<std::string>& devices, int m, const std::vector<std::int64_t>& caps);
  void list_families();
  [[nodiscard]] static FamilyState state_of(PlanFamily family);
  [[nodiscard]] bool tried_one_by_one(const PlanFamily& family) const;
  void try_one_by_one(const std::vector<FamilyState*>& states);
  void leave_out_stages(int virtual_stages, bool nothing_faster);
  void first_lists_of_more_stages(std::int64_t least_left);
  [[nodiscard]] bool try_seeds_of_list(FamilyState& state, std::int64_t least_left);
  void try_given_cuts();
  void try_seeds();
  void try_cuts(FamilyState& state, const std::vector<int>& cuts);
  void note(FamilyState& state, double step_s, const std::vector<int>& cuts);
  void try_known_cuts(FamilyState& state);
  void try_all_cuts(FamilyState& state);
  void try_neighbours(FamilyState& state, int moves);
  [[nodiscard]] const FamilyState* fastest_alike(const FamilyState& state) const;
  [[nodiscard]] bool set_aside(const FamilyState& state) const;
  [[nodiscard]] std::int64_t helping_work(const FamilyState& state) const;
  void help_ranked();

  // What a family is searched for: a plan faster than all other plans, the best pipeline, or the next best ones.
  enum class Goal : std::uint8_t { fastest, best, alternatives };
  // One search of a family.
  struct Attempt {
    Goal goal = Goal::best;
    std::int64_t most_nodes = 0;
    FamilyProof proof;  // proof by earlier attempts and this one
  };
  [[nodiscard]] double threshold_s(Goal goal) const;
  [[nodiscard]] std::int64_t threshold_ns(Goal goal) const;
  // True if memory caps decide what a plan recomputes.
  [[nodiscard]] bool memory_chooses(const FamilyState& state) const;
  [[nodiscard]] std::int64_t least_excess_known();
  [[nodiscard]] PartitionProblem problem_of(const FamilyState& state, Goal goal, std::int64_t most_nodes);
  PartitionResult run(const FamilyState& state, PartitionProblem& problem);
  void solve(FamilyState& state, Attempt& attempt);
  void solve_with_memory(FamilyState& state, Attempt& attempt);
  void try_found(FamilyState& state, Plan plan, bool rows_are_fixed);
  void ask_recomputed(FamilyState& state, Attempt& attempt, bool rows_are_fixed);
  void note_excess(const PartitionResult& result, const PartitionProblem& problem);
  void ask_in_pieces(FamilyState& state, Attempt& attempt, PartitionProblem& problem, bool rows_are_fixed);
  PartitionResult try_recomputed(FamilyState& state, PartitionProblem& problem, bool rows_are_fixed);
  void solve_beyond(FamilyState& state, double longest_s);
  void sharpen(FamilyState& state);
  void sharpen_all();
  void search_cuts(Goal goal, std::int64_t least_left);

  const SearchSpace& space_;
  const CostModel& cost_;
  std::vector<std::int64_t> caps_;
  RatedFamilies& rated_;
  Choices choices_;
  Evaluator evaluator_;
  std::vector<FamilyState> states_;
  int keep_;
  std::int64_t pieces_work_left_;  ///< work left for ask_in_pieces(), in simulated actions
  std::optional<bool> only_replicated_;
  StagesPerDevice stages_per_device_;
  bool more_than_lists_ = false;  ///< families of other schedules than `list` can be executed
};

}  // namespace mptune::planner
