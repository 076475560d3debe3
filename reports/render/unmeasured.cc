#include "reports/render/unmeasured.h"

#include <fmt/format.h>

#include <algorithm>

#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "reports/render/kinds.h"
#include "reports/render/recommendation_text.h"

namespace mptune::reports {
namespace {

constexpr std::size_t kFewPlans = 3;

std::string counted_plans(std::size_t count) {
  return fmt::format("{} plan{}", count, count == 1 ? "" : "s");
}

std::string known_step(const tuner::UnmeasuredPlan& plan) {
  if (plan.alone_s) return "; " + format_seconds(*plan.alone_s) + " in its own trial";
  return plan.predicted_step_s > 0 ? "; predicted " + format_seconds(plan.predicted_step_s) : "";
}

std::string failed_plan(const tuner::UnmeasuredPlan& plan) {
  return plan.description + (plan.plan ? cuts_text(*plan.plan) : "") + known_step(plan);
}

}  // namespace

std::string unmeasured_text(const tuner::UnmeasuredPlan& plan) {
  return text_of(plan.why) + known_step(plan);
}

std::vector<FailedLines> failed_lines(const std::vector<tuner::UnmeasuredPlan>& plans, Listing listing) {
  std::vector<FailedLines> all;
  for (const tuner::FailedAlike& alike : tuner::by_cause(plans)) {
    FailedLines& lines = all.emplace_back();
    lines.cause = tuner::outcome_text(alike.cause) + ": " + counted_plans(alike.plans.size());
    // A list that is longer by one plan only would not be shorter with a line that counts it.
    const bool whole = listing == Listing::all || alike.plans.size() <= kFewPlans + 1;
    const std::size_t shown = whole ? alike.plans.size() : kFewPlans;
    for (std::size_t i = 0; i < shown; ++i) lines.plans.push_back(failed_plan(alike.plans[i]));
    lines.more = static_cast<int>(alike.plans.size() - shown);
  }
  return all;
}

std::string failed_title(const std::vector<tuner::UnmeasuredPlan>& plans) {
  return counted_plans(plans.size()) + " failed";
}

std::string render_failed(const std::vector<tuner::UnmeasuredPlan>& plans, Listing listing, const TextStyle& style) {
  std::string text;
  for (const FailedLines& lines : failed_lines(plans, listing)) {
    text += join(wrap(lines.cause, style.width), "\n") + "\n";
    for (const std::string& plan : lines.plans) text += hanging("  ", plan, style);
    if (lines.more > 0) text += fmt::format("  and {} more: -v lists all\n", lines.more);
  }
  return text;
}

}  // namespace mptune::reports
