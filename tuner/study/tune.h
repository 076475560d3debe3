#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/search/search_result.h"
#include "profiler/trace/values/profile.h"
#include "tuner/study/budget.h"
#include "tuner/study/recommend/kinds.h"
#include "tuner/study/recommend/recommend.h"
#include "tuner/study/store/study.h"
#include "tuner/trial/trial.h"

namespace mptune::tuner {

struct TuneOptions {
  double budget_s = 300;
  int most_trials = 1000;
  double target_percent = 1;    ///< stop exploring when no untried plan can be faster by more than this [%]
  std::optional<Plan> current;  ///< the user's plan, measured as baseline `current`
  SearchSpace space;            ///< devices, caps, batch, what may vary
  std::string asked;            ///< options that restrict the space, for people; where given, the fastest plan is baseline `asked_for`
  double worker_s = 0;          ///< what a worker's start has taken before this; 0: not known
};

/// What a tuning run needs from outside; each has a fake in the tests.
struct TuneServices {
  /// Compares the model's pieces with the whole model; throws Error where they differ. Returns whether there was time for all comparisons:
  /// if so, it is not called again for the study. May be empty.
  std::function<bool(const PhaseTime& time)> check;
  std::function<Profile(const PhaseTime& time)> measure;                  ///< profiles the model; not called when the study holds a profile
  std::function<void(const Plan& plan, const std::string& name)> record;  ///< records a trace of a plan into the study
  /// Keeps a plan that failed, and returns the command that runs it by itself; may be empty. Throws Error on a full disk.
  std::function<std::string(const Trial& trial)> keep_failed;
  TrialRunner* runner = nullptr;
  std::function<double()> clock;  ///< seconds, monotonic
  std::function<void(const std::string& what, double fraction)> progress;
};

struct TuneResult {
  Recommendation recommendation;
  std::vector<Trial> trials;  ///< all trials of the study
  SearchResult search;
  std::vector<PlannedBaseline> baselines;  ///< all baselines, measured or not
  KindFacts kind_facts;                    ///< what the recommendation's table of kinds was made with
  double co_running_slowdown = 1;
  double elapsed_s = 0;
  double lower_bound_s = 0;
  double gap = 0;  ///< recommended step over lower bound - 1
  std::string stop_reason;
};

/// The phases of `tune`: check the model, measure the profile, search by simulation, try baselines and the best candidates, benchmark the
/// finalists and baselines interleaved (about half of the budget, at least 10 rounds where it allows), recommend, record traces. The budget
/// is shared out among them as budget.h says. Where there is no time for all baselines, those predicted to be fastest are tried first.
/// Every trial is in the study before the next one starts; a resumed study does not run finished trials again, only those that retry.h
/// names, and baselines that no run had time for.
/// Throws Error: infeasible where nothing fits (with the smallest excess), no_result (BudgetTooSmall where the budget had no time for a
/// first trial), or interrupted.
[[nodiscard]] TuneResult tune(const TuneOptions& options, Study& study, const TuneServices& services);

}  // namespace mptune::tuner
