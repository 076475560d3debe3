#include "tuner/study/recommend/unmeasured.h"

#include <algorithm>
#include <set>
#include <utility>

#include "planner/plan/plan_words.h"
#include "tuner/study/recommend/finalists.h"

namespace mptune::tuner {
namespace {

struct History {
  const Trial* last = nullptr;
  std::optional<double> measured_s;  ///< step of the last measured trial
};

History history_of(const std::string& key, const std::vector<Trial>& all) {
  History history;
  for (const Trial& trial : all) {
    if (trial.plan_key != key || std::holds_alternative<Interrupted>(trial.outcome)) continue;
    history.last = &trial;
    if (const auto step = measured_step(trial)) history.measured_s = step;
  }
  return history;
}

WhyNot why_not(const History& history) {
  if (history.last == nullptr) return NotTried{};
  if (measured_step(*history.last)) return NotInFinal{};
  return history.measured_s ? WhyNot(FailedInFinal{history.last->outcome}) : TrialFailed{history.last->outcome};
}

template <class Why>
bool is(const UnmeasuredPlan& plan) {
  return std::holds_alternative<Why>(plan.why);
}

UnmeasuredPlan unmeasured_plan(const std::string& name, const std::string& key, const History& history) {
  UnmeasuredPlan plan{.name = name, .plan_key = key, .plan = {}, .description = {}, .alone_s = history.measured_s, .why = why_not(history)};
  if (history.last == nullptr) return plan;
  plan.plan = history.last->plan;
  plan.description = describe(history.last->plan);
  if (history.last->prediction) plan.predicted_step_s = history.last->prediction->step_s;
  return plan;
}

/// Returns what two outcomes have in common; empty where their causes differ.
std::optional<Outcome> common_cause(const Outcome& a, const Outcome& b) {
  if (a == b) return a;
  if (a.index() != b.index()) return std::nullopt;
  if (const auto* memory = std::get_if<OutOfMemory>(&a)) {
    if (memory->device == std::get<OutOfMemory>(b).device) return OutOfMemory{memory->device, 0, 0};
  }
  if (const auto* late = std::get_if<TimedOut>(&a)) return TimedOut{std::min(late->limit_s, std::get<TimedOut>(b).limit_s)};
  if (const auto* crash = std::get_if<Crashed>(&a)) {
    const auto& other = std::get<Crashed>(b);
    if (crash->signal == other.signal && crash->exit_code == other.exit_code) return Crashed{crash->signal, crash->exit_code, ""};
  }
  if (std::holds_alternative<WrongResult>(a)) return WrongResult{};
  return std::nullopt;
}

template <class Condition>
std::vector<UnmeasuredPlan> selected(const std::vector<UnmeasuredPlan>& plans, Condition condition) {
  std::vector<UnmeasuredPlan> kept;
  std::ranges::copy_if(plans, std::back_inserter(kept), condition);
  return kept;
}

/// Names baselines by their names, and candidates by their descriptions.
std::vector<std::string> names_of(const std::vector<UnmeasuredPlan>& plans) {
  std::vector<std::string> names;
  for (const UnmeasuredPlan& plan : plans) names.push_back(plan.name == kCandidateName ? plan.description : plan.name);
  return names;
}

void warn_of_finalists(const Unmeasured& unmeasured, std::vector<Warning>& warnings) {
  std::vector<UnmeasuredPlan> finalists = selected(unmeasured.baselines, is<FailedInFinal>);
  std::ranges::copy_if(unmeasured.candidates, std::back_inserter(finalists), is<FailedInFinal>);
  for (const FailedAlike& alike : by_cause(finalists)) warnings.emplace_back(FinalistsFailed{names_of(alike.plans), alike.cause});
}

void warn_of_baselines(const Unmeasured& unmeasured, std::vector<Warning>& warnings) {
  for (const FailedAlike& alike : by_cause(selected(unmeasured.baselines, is<TrialFailed>)))
    warnings.emplace_back(BaselinesFailed{names_of(alike.plans), alike.cause});
  if (const auto plans = selected(unmeasured.baselines, is<NotTried>); !plans.empty())
    warnings.emplace_back(BaselinesNotTried{names_of(plans)});
}

}  // namespace

const Outcome* failure_in(const WhyNot& why) {
  if (const auto* trial = std::get_if<TrialFailed>(&why)) return &trial->outcome;
  if (const auto* last = std::get_if<FailedInFinal>(&why)) return &last->outcome;
  return nullptr;
}

Unmeasured unmeasured_plans(const std::vector<Trial>& final_series, const std::vector<Trial>& all,
                            const std::vector<PlannedBaseline>& baselines) {
  Unmeasured unmeasured;
  std::set<std::string> seen;
  for (const Trial& trial : final_series)
    if (measured_step(trial)) seen.insert(trial.plan_key);
  const std::set<std::string> compared = seen;
  for (const PlannedBaseline& baseline : baselines) {
    seen.insert(baseline.plan_key);
    if (compared.contains(baseline.plan_key)) continue;
    UnmeasuredPlan plan = unmeasured_plan(baseline.name, baseline.plan_key, history_of(baseline.plan_key, all));
    if (plan.description.empty()) plan.description = baseline.description;
    if (plan.predicted_step_s <= 0) plan.predicted_step_s = baseline.predicted_step_s;
    unmeasured.baselines.push_back(std::move(plan));
  }
  for (const Trial& trial : all) {
    if (trial.name != kCandidateName || !seen.insert(trial.plan_key).second) continue;
    UnmeasuredPlan plan = unmeasured_plan(trial.name, trial.plan_key, history_of(trial.plan_key, all));
    if (failure_in(plan.why) != nullptr) unmeasured.candidates.push_back(std::move(plan));
  }
  return unmeasured;
}

std::vector<FailedAlike> by_cause(const std::vector<UnmeasuredPlan>& plans) {
  std::vector<FailedAlike> groups;
  for (const UnmeasuredPlan& plan : plans) {
    const Outcome* failure = failure_in(plan.why);
    if (failure == nullptr) continue;
    const auto alike =
        std::ranges::find_if(groups, [&](const FailedAlike& group) { return common_cause(group.cause, *failure).has_value(); });
    if (alike == groups.end()) {
      groups.push_back({*failure, {plan}});
    } else {
      alike->cause = *common_cause(alike->cause, *failure);
      alike->plans.push_back(plan);
    }
  }
  return groups;
}

std::vector<Warning> warnings_of(const Unmeasured& unmeasured, double predicted_step_s) {
  std::vector<Warning> warnings;
  warn_of_baselines(unmeasured, warnings);
  warn_of_finalists(unmeasured, warnings);
  const auto faster = [&](const UnmeasuredPlan& plan) {
    return is<TrialFailed>(plan) && plan.predicted_step_s > 0 && plan.predicted_step_s < predicted_step_s;
  };
  for (const FailedAlike& alike : by_cause(selected(unmeasured.candidates, faster))) {
    const double least_s = std::ranges::min(alike.plans, {}, &UnmeasuredPlan::predicted_step_s).predicted_step_s;
    warnings.emplace_back(
        FasterPlansFailed{.plans = static_cast<int>(alike.plans.size()), .time_ratio = least_s / predicted_step_s, .cause = alike.cause});
  }
  return warnings;
}

}  // namespace mptune::tuner
