#include "tuner/study/no_result.h"

#include <algorithm>

#include "planner/plan/plan_words.h"
#include "profiler/base/units.h"
#include "tuner/study/budget.h"
#include "tuner/study/recommend/finalists.h"

namespace mptune::tuner {
namespace {

Error nothing_fits(const SearchResult& search) {
  const std::string excess = search.smallest_excess_bytes > 0
                                 ? ": the nearest plan needs " + std::to_string(search.smallest_excess_bytes) + " bytes more"
                                 : std::string();
  return {"no plan fits into memory" + excess, search.smallest_excess_device.empty() ? "--memory" : search.smallest_excess_device,
          "raise --memory, lower --batch, or give more devices", ExitCode::infeasible};
}

/// Lowers a time to `step_s`; 0 stands for a time that is not known.
void lower(double& least_s, double step_s) {
  least_s = least_s == 0 ? step_s : std::min(least_s, step_s);
}

}  // namespace

BudgetTooSmall no_time_for_a_trial(const SearchResult& search, const std::vector<planner::NamedPlan>& baselines, const Profile& profile,
                                   double worker_s) {
  AnswerNeeds needs{.ready_s = worker_s, .worker_s = worker_s};
  if (!search.ranked.empty()) needs.plan_step_s = search.ranked.front().prediction.step_s;
  for (const planner::NamedPlan& baseline : baselines) {
    const auto prediction = prediction_of(baseline.plan, profile);
    if (!prediction) continue;
    lower(needs.plan_step_s, prediction->step_s);
    if (baseline.plan.num_stages() == 1) lower(needs.baseline_step_s, prediction->step_s);
  }
  if (needs.baseline_step_s == 0) needs.baseline_step_s = needs.plan_step_s;
  const bool known = needs.plan_step_s > 0;
  return {"the budget leaves no time for a first trial" +
              (known ? ": a step of the fastest plan is predicted to take " + format_seconds(needs.plan_step_s) : ""),
          enough_for_answer(needs)};
}

bool was_cut_off(const SearchResult& search) {
  return std::ranges::find(search.rejected, RejectedAs::not_reached, &Rejection::reason) != search.rejected.end();
}

Error no_result(const SearchResult& search, const std::vector<Trial>& trials, const std::function<std::string(const Trial&)>& keep_failed) {
  const bool memory_alone = std::ranges::all_of(trials, [](const Trial& trial) {
    return std::holds_alternative<OutOfMemory>(trial.outcome) || std::holds_alternative<Infeasible>(trial.outcome);
  });
  if (search.ranked.empty() || (memory_alone && !trials.empty())) return nothing_fits(search);
  const Trial& last = trials.back();
  const bool diverges = std::holds_alternative<NonFinite>(last.outcome);
  const std::string alone = keep_failed ? "`" + keep_failed(last) + "` shows what fails" : "run the plan by itself";
  return {"no plan could be measured: " + outcome_text(last.outcome), describe(last.plan),
          diverges ? "lower --lr or check the data" : alone, ExitCode::no_result};
}

}  // namespace mptune::tuner
