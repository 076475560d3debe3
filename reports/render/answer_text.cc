#include "reports/render/answer_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "planner/plan/parallelism.h"
#include "planner/plan/plan_words.h"
#include "planner/search/baselines.h"
#include "profiler/base/index.h"
#include "profiler/base/units.h"
#include "reports/render/kinds.h"
#include "reports/render/recommendation_text.h"
#include "reports/render/report_text.h"
#include "reports/render/units.h"
#include "reports/values/plain_pytorch.h"
#include "tuner/study/recommend/finalists.h"

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

/// Returns what a GPU is called: "NVIDIA H100, 132 SMs"; "" for other devices, and where the plan's trace is not known.
std::string gpu_name(const std::optional<TraceReport>& trace, const std::string& device) {
  if (!trace || device.find("cuda:") == std::string::npos) return "";
  const auto row = std::ranges::find(trace->devices, device, &DeviceRow::device);
  return row == trace->devices.end() ? "" : row->description;
}

std::string memory_line(const tuner::RecommendedPlan& plan, const std::optional<TraceReport>& trace) {
  const auto largest = std::ranges::max_element(plan.peak_bytes);
  if (largest == plan.peak_bytes.end() || *largest <= 0) return "";
  const std::size_t device = as_index(largest - plan.peak_bytes.begin());
  if (device >= plan.trial.plan.devices.size()) return "peak memory " + format_bytes(*largest);
  const std::string& name = plan.trial.plan.devices[device];
  const std::string gpu = gpu_name(trace, name);
  return "peak memory " + format_bytes(*largest) + ", on " + name + (gpu.empty() ? "" : " (" + gpu + ")");
}

/// Returns the baseline that the recommended plan is; null where it is none.
const tuner::BaselineResult* own_baseline(const tuner::Recommendation& all) {
  const auto own = std::ranges::find(all.baselines, all.recommended.trial.plan_key,
                                     [](const tuner::BaselineResult& baseline) { return baseline.trial.plan_key; });
  return own == all.baselines.end() ? nullptr : &*own;
}

std::string same_plan_line(const tuner::Recommendation& all) {
  const tuner::BaselineResult* own = own_baseline(all);
  if (own == nullptr) return "";
  const bool plain = !plain_pytorch(all.recommended.trial.plan).empty();
  return "the same plan as " + own->name + (plain ? ": plain PyTorch does it" : "");
}

/// Returns the speed-up over each of leading_baselines().
std::vector<std::string> speedup_lines(const tuner::Recommendation& all) {
  const std::string other = own_baseline(all) == nullptr ? "" : " other";
  std::vector<std::string> lines;
  bool unpipelined = false;  // the best un-pipelined run was named
  for (const tuner::BaselineResult* baseline : tuner::leading_baselines(all)) {
    const bool first = tuner::is_unpipelined(baseline->trial.plan) && !std::exchange(unpipelined, true);
    const bool single = baseline->name == planner::kSingleDeviceBaseline;
    const std::string rank = first ? ", the best" + other + " un-pipelined run" : single ? "" : ", the best" + other + " baseline";
    lines.push_back(format_speedup(baseline->speedup) + " over " + baseline->name + rank);
  }
  return lines;
}

/// Says what is not certain, or what follows where no pipeline is best; "" where neither is the case.
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
  return !all.decided || few_rounds(all) != nullptr || rounds_of(all.recommended.trial) < as_index(kLeastPairs);
}

bool more_measuring_helps(const StudyReport& report) {
  const auto left_out = [](const tuner::UnmeasuredPlan& plan) { return std::holds_alternative<tuner::NotInFinal>(plan.why); };
  if (std::ranges::any_of(report.recommendation.unmeasured.baselines, left_out)) return true;
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
  std::vector<std::string> lines = {best.description + cuts_text(best.trial.plan), step_line(best), same_plan_line(report.recommendation)};
  for (std::string& line : speedup_lines(report.recommendation)) lines.push_back(std::move(line));
  lines.push_back(memory_line(best, report.trace));
  lines.push_back(last_line(report.recommendation));
  std::erase(lines, "");
  return lines;
}

std::vector<std::string> answer_in_short(const StudyReport& report) {
  const tuner::RecommendedPlan& best = report.recommendation.recommended;
  std::vector<std::string> lines = {(is_provisional(report) ? "provisional: " : "recommended: ") + best.description +
                                    cuts_text(best.trial.plan)};
  if (std::vector<std::string> speedups = speedup_lines(report.recommendation); !speedups.empty())
    lines.push_back(std::move(speedups.front()));
  return lines;
}

bool answer_tells(const tuner::Recommendation& all, const tuner::Warning& warning) {
  return std::holds_alternative<tuner::FewRounds>(warning) &&
         std::ranges::none_of(all.warnings, [](const tuner::Warning& other) { return std::holds_alternative<tuner::Undecided>(other); });
}

}  // namespace mptune::reports
