#pragma once

#include <functional>
#include <string>
#include <vector>

#include "planner/search/baselines.h"
#include "planner/search/search_result.h"
#include "profiler/base/error.h"
#include "tuner/trial/trial.h"

namespace mptune::tuner {

/// The budget had no time for a first trial (ExitCode::no_result).
class BudgetTooSmall : public Error {
 public:
  /// `enough_s`: a budget with which a run that goes on is expected to answer; 0: nothing is known.
  BudgetTooSmall(const std::string& what, double enough_s)
      : Error(what, "--budget", "give a larger --budget", ExitCode::no_result), enough_s_(enough_s) {}
  [[nodiscard]] double enough_s() const { return enough_s_; }

 private:
  double enough_s_;
};

/// Makes the error, which names the predicted step of the fastest plan. `worker_s`: a worker's start as far as it is known.
[[nodiscard]] BudgetTooSmall no_time_for_a_trial(const SearchResult& search, const std::vector<planner::NamedPlan>& baselines,
                                                 const Profile& profile, double worker_s);

/// Returns true if the search ended before it had looked at every plan.
[[nodiscard]] bool was_cut_off(const SearchResult& search);

/// Returns why a run without any measured plan ends: no plan fits into memory (ExitCode::infeasible), or the last one failed
/// (ExitCode::no_result). Requires: there is a trial, or no plan was found. `keep_failed` may be empty; else it keeps a failed plan and
/// returns the command that shows what fails.
[[nodiscard]] Error no_result(const SearchResult& search, const std::vector<Trial>& trials,
                              const std::function<std::string(const Trial&)>& keep_failed);

}  // namespace mptune::tuner
