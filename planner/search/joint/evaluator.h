#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/plan/parallelism.h"
#include "planner/search/joint/ranking.h"
#include "planner/search/search_result.h"

namespace mptune::planner {

/// Simulates plans within caps, ranks those that fit and can be executed, and counts the other plans.
class Evaluator {
 public:
  /// `space` and `cost` must outlive this object.
  Evaluator(const SearchSpace& space, const CostModel& cost, int keep);

  /// Returns the seconds of the plan's step, or infinity where it does not fit. `caps` are per device of the plan, 0: none. A pipeline with
  /// replicas is ranked as a hybrid. Where devices would not hold the plan otherwise, and the space leaves recomputation open, as little as
  /// possible is recomputed.
  double evaluate(Parallelism kind, Plan plan, const std::vector<std::int64_t>& caps);

  void reject(RejectedAs reason, std::int64_t count);
  /// Notes what the nearest of some plans that do not fit lacks.
  void note_excess(std::int64_t bytes, const std::string& device);
  /// Counts work done elsewhere, in units of a simulated action.
  void worked(std::int64_t actions, std::int64_t simulated);
  /// True when the search was asked to stop. Once true, `stop` is not asked again.
  [[nodiscard]] bool stopped();
  /// True when the limit of the work is reached, or the search was asked to stop. It then stays true.
  [[nodiscard]] bool spent();
  [[nodiscard]] std::int64_t work_left() const { return std::max<std::int64_t>(0, space_.most_actions - actions_); }

  Ranking& ranking() { return ranking_; }
  [[nodiscard]] const Ranking& ranking() const { return ranking_; }
  SearchResult& result() { return result_; }
  /// Returns the fastest plans, at most a few, that fit if stages offload what they save (offload_stages.h); fastest first. They are not
  /// ranked, since no bound compares them with other plans and they must exclude none.
  [[nodiscard]] const std::vector<Candidate>& offloading() const { return offloading_; }
  /// Returns the fastest plan of each schedule that can't be executed.
  [[nodiscard]] const std::map<std::string, NotExecutable>& beyond() const { return beyond_; }

 private:
  // Returns the plan with as little recomputation as the caps require. It is chosen thoroughly where the plan may be the fastest.
  Plan recomputing(const Plan& plan, const std::vector<std::int64_t>& caps);
  void note_offloading(const Plan& plan, const std::vector<std::int64_t>& peaks, const std::vector<std::int64_t>& caps);
  void add_beyond(Candidate candidate, MissingCapability missing);

  const SearchSpace& space_;
  const CostModel& cost_;
  Ranking ranking_;
  SearchResult result_;
  std::map<std::string, NotExecutable> beyond_;
  std::vector<Candidate> offloading_;
  bool may_offload_;
  double fastest_s_;
  std::int64_t thorough_ = 0;  // part of actions_ spent on thorough choices
  std::int64_t actions_ = 0;
  bool stopped_ = false;
};

}  // namespace mptune::planner
