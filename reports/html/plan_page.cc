#include <fmt/format.h>

#include <algorithm>

#include "planner/advise/advise.h"
#include "planner/plan/plan_words.h"
#include "planner/schedule/schedule.h"
#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "reports/html/charts.h"
#include "reports/html/html.h"
#include "reports/html/page.h"
#include "reports/html/plan_sections.h"
#include "reports/render/plan_file_text.h"
#include "reports/render/report_text.h"
#include "reports/render/units.h"

namespace mptune::reports {
namespace {

/// More actions than this are not drawn: each box would be narrower than a pixel.
constexpr std::size_t kMostActions = 4000;

std::vector<PageFigure> figures(const PlanFile& file) {
  std::vector<PageFigure> all;
  if (file.measured) {
    const std::optional<Interval>& ci95 = file.measured->step_ci95_s;
    all.push_back({"measured step", format_seconds(file.measured->step_s), ci95 ? "95 % " + format_interval_seconds(*ci95) : ""});
  }
  if (file.predicted) {
    const bool other = file.predicted->runtime != Runtime::mptune;
    all.push_back({other ? std::string("predicted step, as ") + name_of(file.predicted->runtime) + " sends" : "predicted step",
                   format_seconds(file.predicted->step_s), ""});
  }
  const std::vector<std::int64_t> peaks = file.measured    ? file.measured->peak_bytes
                                          : file.predicted ? file.predicted->peak_bytes
                                                           : std::vector<std::int64_t>{};
  if (!peaks.empty())
    all.push_back({file.measured ? "peak memory" : "predicted peak", format_bytes(std::ranges::max(peaks)), "largest of the devices"});
  return all;
}

std::string memory_table(const PlanFile& file) {
  std::vector<HtmlRow> rows;
  const auto text_at = [](const std::vector<std::int64_t>& bytes, std::size_t d) {
    return d < bytes.size() ? format_bytes(bytes[d]) : "-";
  };
  const std::vector<std::int64_t> none;
  for (std::size_t d = 0; d < file.plan.devices.size(); ++d) {
    rows.push_back({file.plan.devices[d], text_at(file.predicted ? file.predicted->peak_bytes : none, d),
                    text_at(file.measured ? file.measured->peak_bytes : none, d)});
  }
  return file.predicted || file.measured ? html_table({"device", ">predicted peak", ">measured peak"}, rows) : "";
}

/// Says how long the drawn step is, and why.
std::string length_of_drawing(const PlanFile& file) {
  if (file.measured) return " The step is drawn as long as the measured one.";
  if (file.predicted) return " The step is drawn as long as the predicted one.";
  return " A sample's forward through a stage is drawn as 1 ms.";
}

std::string schedule_content(const PlanFile& file) {
  const Plan& plan = file.plan;
  std::size_t actions = 0;
  for (const std::vector<Action>& row : plan.actions) actions += row.size();
  if (actions == 0 || actions > kMostActions) return "";
  const double step_s = file.measured ? file.measured->step_s : file.predicted ? file.predicted->step_s : 0;
  const Simulation simulation = planner::simulate_schedule(plan, step_s);
  TraceReport report = build_trace_report(simulation.trace, {}, describe(plan));
  return paragraphs({fmt::format("The order of the actions, drawn with equal stages and free copies; a backward takes twice its forward. "
                                 "{} of the devices' time would be idle.",
                                 format_percent(planner::theoretical_bubble(plan))) +
                     length_of_drawing(file)}) +
         timeline_chart({&report});
}

std::string alternatives_content(const PlanFile& file) {
  std::vector<HtmlRow> rows;
  for (const AlternativePlan& other : file.alternatives) rows.push_back({other.reason, describe(other.plan)});
  return html_table({"why", "plan"}, rows);
}

std::string rows_content(const Plan& plan) {
  std::vector<HtmlRow> rows;
  for (std::size_t d = 0; d < plan.actions.size(); ++d) rows.push_back({plan.devices.at(d), planner::to_text(plan.actions[d])});
  return folded("Actions of each device, as the runtime runs them", html_table({"device", "actions"}, rows, "class=\"actions\""));
}

std::string facts_content(const PlanFile& file) {
  std::vector<HtmlRow> rows;
  for (const auto& [name, value] : plan_file_facts(file)) rows.push_back({name, value});
  return html_table({"what", "here"}, rows, "class=\"facts\"");
}

std::string partition_content(const PlanFile& file) {
  return partition_chart(file.plan, stage_devices_text(file.plan)) +
         element("p", "class=\"note\"", "Width is the number of layers; a plan file holds no costs.") +
         stage_table(file.plan, file.modules);
}

}  // namespace

std::string render_plan_html(const PlanFile& file, const std::string& name) {
  Page page;
  page.title = name + ": mptune report";
  page.subject = fmt::format("{}, {} samples per step, on {}", name, file.plan.global_batch_size(), join(file.plan.devices, ", "));
  page.answer = plan_file_sentence(file);
  page.figures = figures(file);
  page.sections = {{"partition", "Partition", partition_content(file)},
                   {"schedule", "Schedule", schedule_content(file) + rows_content(file.plan)},
                   {"memory", "Memory", memory_table(file)},
                   {"alternatives", "Alternatives", alternatives_content(file)},
                   {"environment", "Made for", facts_content(file)}};
  return render_page(page);
}

}  // namespace mptune::reports
