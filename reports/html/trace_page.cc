#include <fmt/format.h>

#include <algorithm>

#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "reports/html/charts.h"
#include "reports/html/html.h"
#include "reports/html/page.h"
#include "reports/html/trace_sections.h"
#include "reports/render/advice_text.h"
#include "reports/render/units.h"
#include "reports/values/quality_text.h"

namespace mptune::reports {
namespace {

/// Says the idle share, its largest cause, and what would help most.
std::string answer_of(const TraceReport& report) {
  if (report.objection) return "No verdict: " + text_of(*report.objection) + ".";
  const auto idle_of = [&](const profiler::NamedCause& cause) {
    double idle = 0;
    for (const DeviceRow& row : report.devices) idle += std::chrono::duration<double>(row.idle.*cause.time).count();
    return idle;
  };
  const auto largest = std::ranges::max_element(profiler::kIdleCauses, {}, idle_of);
  std::string text = fmt::format("{} of the devices' time is idle", format_percent(report.bubble));
  if (idle_of(*largest) > 0) text += ", most of it " + cause_in_words(largest->name);
  const planner::Advice* best = best_change(report.advice);
  return text + (best == nullptr ? "." : "; " + text_of(*best) + ".");
}

std::vector<PageFigure> figures(const TraceReport& report) {
  std::vector<PageFigure> all;
  const std::optional<Interval> ci95 = interval95(report.steps_s);
  all.push_back({"step", format_seconds(report.step_s),
                 ci95 ? "95 % " + format_interval_seconds(*ci95) : counted(static_cast<std::int64_t>(report.steps_s.size()), "step")});
  all.push_back({"idle", format_percent(report.bubble), report.bubble_theory ? "in theory " + format_percent(*report.bubble_theory) : ""});
  std::int64_t peak = 0;
  for (const DeviceRow& row : report.devices) peak = std::max(peak, row.peak_bytes);
  if (peak > 0) all.push_back({"peak memory", format_bytes(peak), "largest of the devices"});
  if (report.ideal_step_s > 0) all.push_back({"ideal step", format_seconds(report.ideal_step_s), "all work of a kind equally long"});
  return all;
}

}  // namespace

std::string render_trace_html(const TraceReport& report) {
  Page page;
  page.title = report.title + ": mptune report";
  page.subject = report.title;
  page.answer = answer_of(report);
  page.figures = figures(report);
  page.sections = {{"advice", "What would help", advice_content(report)},
                   {"devices", "Where the time goes", breakdown_content(report)},
                   {"timeline", "One step", timeline_chart({&report})},
                   {"memory", "Memory", memory_content(report)},
                   {"details", "Details", details_content(report)}};
  return render_page(page);
}

}  // namespace mptune::reports
