#include "reports/render/answer_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/parallelism.h"
#include "planner/search/search.h"
#include "profiler/base/index.h"
#include "profiler/base/units.h"
#include "reports/render/kinds.h"
#include "reports/render/recommendation_text.h"
#include "reports/render/report_text.h"
#include "reports/render/units.h"

namespace mptune::reports {
namespace {

const tuner::FewRounds* few_rounds(const tuner::Recommendation& all) {
  for (const tuner::Warning& warning : all.warnings)
    if (const auto* few = std::get_if<tuner::FewRounds>(&warning)) return few;
  return nullptr;
}

std::string step_line(const tuner::RecommendedPlan& plan) {
  const std::string measured = format_measured(plan.step_s, plan.step_ci95_s, rounds_of(plan.trial));
  return "step " + measured + (plan.predicted_step_s > 0 ? "; predicted " + format_seconds(plan.predicted_step_s) : "");
}

std::string memory_line(const tuner::RecommendedPlan& plan) {
  const auto largest = std::ranges::max_element(plan.peak_bytes);
  if (largest == plan.peak_bytes.end() || *largest <= 0) return "";
  const std::size_t device = as_index(largest - plan.peak_bytes.begin());
  const std::string where = device < plan.trial.plan.devices.size() ? ", on " + plan.trial.plan.devices[device] : "";
  return "peak memory " + format_bytes(*largest) + where;
}

/// Over the un-pipelined model on one device, and over the fastest baseline where that is another one.
std::vector<std::string> speedup_lines(const tuner::Recommendation& all) {
  std::vector<std::string> lines;
  if (all.baselines.empty()) return lines;
  const auto fastest = std::ranges::min_element(all.baselines, {}, &tuner::BaselineResult::step_s);
  for (auto baseline = all.baselines.begin(); baseline != all.baselines.end(); ++baseline) {
    if (baseline != fastest && baseline->name != kSingleDeviceBaseline) continue;
    const std::string name = baseline->name + (baseline == fastest && all.baselines.size() > 1 ? ", the best baseline" : "");
    const bool same = baseline->trial.plan_key == all.recommended.trial.plan_key;
    lines.push_back(same ? "the same plan as " + name : format_speedup(baseline->speedup) + " over " + name);
  }
  return lines;
}

/// What is not certain, or what follows where no pipeline is best; "" where neither is so.
std::string last_line(const tuner::Recommendation& all) {
  for (const tuner::Warning& warning : all.warnings)
    if (const auto* rival = std::get_if<tuner::Undecided>(&warning)) return "provisional: " + describe(rival->rival) + " may be faster";
  if (const tuner::FewRounds* few = few_rounds(all))
    return fmt::format("provisional: {} interleaved round{}, {} are wanted", few->rounds, few->rounds == 1 ? "" : "s", few->wanted);
  const planner::Parallelism kind = planner::parallelism_of(all.recommended.trial.plan);
  const bool pipelined = kind == planner::Parallelism::pipeline || kind == planner::Parallelism::hybrid;
  for (const tuner::PlanAdvice& advice : all.advice)
    if (std::holds_alternative<tuner::OnlyPlanMeasured>(advice) || std::holds_alternative<tuner::NothingBeatsBaselines>(advice) ||
        (std::holds_alternative<tuner::FastestHere>(advice) && !pipelined))
      return text_of(advice);
  return all.decided ? "" : "provisional: not all finalists were benchmarked together";
}

}  // namespace

std::size_t rounds_of(const tuner::Trial& trial) {
  const auto* measured = std::get_if<tuner::Measured>(&trial.outcome);
  return measured == nullptr ? 0 : measured->step_s.size();
}

bool is_provisional(const StudyReport& report) {
  const tuner::Recommendation& all = report.recommendation;
  return !all.decided || few_rounds(all) != nullptr || rounds_of(all.recommended.trial) < kLeastForInterval95;
}

bool more_measuring_helps(const StudyReport& report) {
  return is_provisional(report) || std::ranges::any_of(report.recommendation.warnings, [](const tuner::Warning& warning) {
           return std::holds_alternative<tuner::NoTimeToMeasure>(warning) || std::holds_alternative<tuner::NoTraceOf>(warning) ||
                  std::holds_alternative<tuner::BaselinesNotTried>(warning);
         });
}

std::string answer_title(const StudyReport& report) {
  return (is_provisional(report) ? "Provisional recommendation for " : "Recommendation for ") + report.model;
}

std::vector<std::string> answer_lines(const StudyReport& report) {
  const tuner::RecommendedPlan& best = report.recommendation.recommended;
  std::vector<std::string> lines = {best.description + cuts_text(best.trial.plan), step_line(best)};
  for (std::string& line : speedup_lines(report.recommendation)) lines.push_back(std::move(line));
  lines.push_back(memory_line(best));
  lines.push_back(last_line(report.recommendation));
  std::erase(lines, "");
  return lines;
}

bool answer_tells(const tuner::Recommendation& all, const tuner::Warning& warning) {
  return std::holds_alternative<tuner::FewRounds>(warning) &&
         std::ranges::none_of(all.warnings, [](const tuner::Warning& other) { return std::holds_alternative<tuner::Undecided>(other); });
}

}  // namespace mptune::reports
