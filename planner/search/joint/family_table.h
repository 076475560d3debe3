#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/search/joint/evaluator.h"
#include "planner/search/search_budget.h"
#include "planner/search/space/choices.h"

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
  explicit FamilyState(PlanFamily listed_family) : family(std::move(listed_family)) { proof.lower_ns = family.bound_ns; }

  PlanFamily family;
  FamilyProof proof;
  double best_s = std::numeric_limits<double>::infinity();  ///< fastest of the plans seen; infinity: none of them fits
  std::vector<int> best_cuts;                               ///< cuts of the fastest plan
  std::int64_t seen = 0;                                    ///< plans given to the evaluator
  bool fits = true;                                         ///< false: proved that no plan fits the caps
  int listed = SearchBudget::kFirstListed;                  ///< with memory caps: plans to request from the next search of the cuts; grows
  bool asked_recomputed = false;                            ///< searched with whole stages recomputed
  bool more_stages = false;                                 ///< has more stages per device than the families of FamilyTable::list()
  bool sharp = false;                                       ///< the family's bound was sharpened
};

/// What a family is searched for: a plan faster than all other plans, the best pipeline, or the next best ones.
enum class SearchGoal : std::uint8_t { fastest, best, alternatives };

/// Returns whole nanoseconds, the nearest to `seconds`; the largest number if these are infinite.
[[nodiscard]] std::int64_t whole_ns(double seconds);

/// What is known of the families of a space within given caps, and what all searches of them do: plans are tried, and bounds are sharpened.
class FamilyTable {
 public:
  /// `space` and `cost` must outlive this object. `caps` are per device of the space, 0: none. `keep` plans are ranked.
  FamilyTable(const SearchSpace& space, const CostModel& cost, std::vector<std::int64_t> caps, int keep);

  /// Restricts the families to those with replicas (true) or without (false). Requires: called before list().
  void only_replicated(bool replicated) { only_replicated_ = replicated; }
  /// Lists the families that Choices::pipelines() returns. A second call changes nothing.
  void list();
  /// Adds families with more stages per device. Returns their states, which are valid until more are added or the states are sorted.
  std::vector<FamilyState*> add(std::vector<PlanFamily> families);
  /// Sorts the states by what is proved of them, smallest lower bound first.
  void sort();

  [[nodiscard]] std::vector<FamilyState>& states() { return states_; }
  [[nodiscard]] const std::vector<FamilyState>& states() const { return states_; }
  /// True if families with more stages per device are wanted beside those of list().
  [[nodiscard]] bool wants_more_stages() const { return !only_replicated_.value_or(false) && choices_.most_virtual() > 0; }
  /// True if families of other schedules than `list` can be executed.
  [[nodiscard]] bool more_than_lists() const { return more_than_lists_; }
  /// True for families that partition() can't bound well, or not within little work. They are tried after the others.
  [[nodiscard]] bool tried_late(const FamilyState& state) const;

  /// Returns the step above which no plan serves the goal; infinity: none is known.
  [[nodiscard]] double threshold_s(SearchGoal goal) const;
  [[nodiscard]] std::int64_t threshold_ns(SearchGoal goal) const;
  /// True if plans that take at least `lower_ns` are slower than the best pipeline known.
  [[nodiscard]] bool slower(std::int64_t lower_ns) const { return lower_ns > threshold_ns(SearchGoal::best); }

  /// Evaluates the plan of the family with these cuts.
  void try_cuts(FamilyState& state, const std::vector<int>& cuts);
  /// Evaluates a plan of the family, which has its rows. Where the caps lead to other rows, try_remade() also evaluates the plan with
  /// these.
  void try_plan(FamilyState& state, Plan plan);
  void try_remade(FamilyState& state, Plan plan);
  /// Returns the work of try_cuts(): simulated actions, layers of weight gradients, and what the rows cost.
  [[nodiscard]] std::int64_t work_per_plan(const PlanFamily& family) const;
  /// Raises the family's bound where a better one is known.
  void sharpen(FamilyState& state);
  /// Sharpens all bounds that do not exclude their families, also of families with more stages per device.
  void sharpen_all();

  [[nodiscard]] const SearchSpace& space() const { return space_; }
  [[nodiscard]] const CostModel& cost() const { return cost_; }
  [[nodiscard]] const std::vector<std::int64_t>& caps() const { return caps_; }
  [[nodiscard]] Choices& choices() { return choices_; }
  [[nodiscard]] const Choices& choices() const { return choices_; }
  [[nodiscard]] Evaluator& evaluator() { return evaluator_; }
  [[nodiscard]] const Evaluator& evaluator() const { return evaluator_; }

 private:
  void make_rows(const PlanFamily& family, const std::vector<std::int64_t>& caps, Plan& plan);
  void note(FamilyState& state, double step_s, const std::vector<int>& cuts);

  const SearchSpace& space_;
  const CostModel& cost_;
  std::vector<std::int64_t> caps_;
  Choices choices_;
  Evaluator evaluator_;
  std::vector<FamilyState> states_;
  std::optional<bool> only_replicated_;
  bool more_than_lists_ = false;
};

}  // namespace mptune::planner
