#include "reports/render/markdown.h"

#include <fmt/format.h>

#include <algorithm>

#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "reports/render/answer_text.h"
#include "reports/render/kinds.h"
#include "reports/render/markdown_parts.h"
#include "reports/render/pictures.h"
#include "reports/render/plan_file_text.h"
#include "reports/render/recommendation_text.h"
#include "reports/render/report_text.h"
#include "reports/render/stall_text.h"
#include "reports/render/style.h"
#include "reports/render/units.h"
#include "reports/values/follow_up.h"
#include "reports/values/plain_pytorch.h"
#include "reports/values/shared_files.h"

namespace mptune::reports {
namespace {

// Pictures are drawn as wide as a code block shows without scrolling.
constexpr TextStyle kBlock{.width = 100, .unicode = true, .color = false};

using Row = MarkdownRow;

std::string largest_text(const std::vector<std::int64_t>& bytes) {
  return bytes.empty() || std::ranges::max(bytes) <= 0 ? "-" : format_bytes(std::ranges::max(bytes));
}

std::string kinds_of(const tuner::KindComparison& kinds) {
  std::vector<Row> rows;
  for (const KindCells& row : kind_cells(kinds))
    rows.push_back({row.kind, row.step, row.interval, row.speedup, row.peak, row.verdict, row.detail});
  if (rows.empty()) return "";
  return section("Which kind of parallelism") + list_of(texts_of(kinds.advice)) +
         table_of({"kind", ">step", ">95 %", ">over one device", ">peak", "verdict", "plan"}, rows);
}

std::string comparison_of(const tuner::Recommendation& all) {
  std::vector<Row> rows;
  const auto add = [&](const std::string& name, const auto& plan, const std::string& speedup) {
    rows.push_back({name, format_seconds(plan.step_s), interval_cell(plan.step_ci95_s), speedup, largest_text(plan.peak_bytes)});
  };
  add("recommended", all.recommended, "");
  if (all.best_pipeline && all.best_pipeline->trial.plan_key != all.recommended.trial.plan_key)
    add("best_pipeline", *all.best_pipeline, "");
  for (const tuner::BaselineResult& baseline : all.baselines) add(baseline.name, baseline, format_speedup_over(baseline, all.recommended));
  for (const tuner::UnmeasuredPlan& baseline : all.unmeasured.baselines)
    rows.push_back({baseline.name, "-", "-", unmeasured_text(baseline), "-"});
  return section("Step time and speed-up of the recommendation") +
         table_of({"plan", ">step", ">95 %", "speed-up of the recommendation", ">peak"}, rows);
}

std::string failed_of(const std::vector<tuner::UnmeasuredPlan>& plans, Listing listing) {
  std::string text;
  for (const FailedLines& lines : failed_lines(plans, listing)) {
    text += escaped(lines.cause) + "\n\n";
    std::vector<std::string> items = lines.plans;
    if (lines.more > 0) items.push_back(fmt::format("and {} more: -v lists all", lines.more));
    text += list_of(items);
  }
  return text.empty() ? "" : section(failed_title(plans)) + text;
}

std::string curve_of(const std::vector<CurvePoint>& curve) {
  std::vector<Row> rows;
  for (const CurvePoint& point : curve) {
    rows.push_back({std::to_string(point.split_size), point.predicted_s > 0 ? format_seconds(point.predicted_s) : "-",
                    point.measured_s ? format_seconds(*point.measured_s) : "-", interval_cell(point.measured_ci95_s)});
  }
  return rows.size() < 2 ? ""
                         : section("Step time of the pipeline over the split size") +
                               table_of({">samples per micro-batch", ">predicted", ">measured", ">95 %"}, rows);
}

std::string devices_of_trace(const TraceReport& report) {
  std::vector<Row> rows;
  for (const DeviceRow& row : report.devices) {
    const auto share = [&](double seconds) { return format_percent(row.window_s > 0 ? seconds / row.window_s : 0); };
    rows.push_back({row.device, share(row.compute_s), share(row.copy_s), share(row.overlap_s), share(row.idle_s),
                    row.peak_bytes > 0 ? format_bytes(row.peak_bytes) : "-"});
  }
  return table_of({"device", ">compute", ">copy", ">overlap", ">idle", ">peak"}, rows);
}

std::string trace_sections(const TraceReport& report) {
  std::string text = section(fmt::format("{}: step {}, idle {} of all devices", escaped(report.title), format_seconds(report.step_s),
                                         format_percent(report.bubble)));
  text += devices_of_trace(report);
  text += "Why devices idle:\n\n" + block(render_idle(report, kBlock));
  text += "What would help:\n\n" + block(render_advice(report, kBlock));
  if (const std::string stalls = render_stalls(report, kBlock); !stalls.empty()) text += "Stalls:\n\n" + block(stalls);
  if (const std::string timeline = render_timeline(report, kBlock); !timeline.empty()) text += "One step:\n\n" + block(timeline);
  if (const std::string memory = render_memory(report, kBlock); !memory.empty()) text += "Memory:\n\n" + block(memory);
  return text;
}

std::string answer_of(const StudyReport& report) {
  std::string text = list_of(answer_lines(report));
  if (!report.run_command.empty()) {
    const std::string train = shared_command_with_plan_file(report.training, report.recommendation.recommended.trial.plan,
                                                            beside_study(report, report.plan_file));
    text += escaped(where_to_give_commands(report)) + ", train with the plan:\n\n" + block(train);
  }
  if (const std::vector<std::string> lines = plain_pytorch(report.recommendation.recommended.trial.plan); !lines.empty())
    text += "Plain PyTorch does the same with:\n\n" + block(join(lines, "\n"));
  if (more_measuring_helps(report)) text += "Go on measuring:\n\n" + block(shared_resume_command(study_name(report), report.elapsed_s));
  return text;
}

/// Says what else follows from the measurements, and why the plan is recommended.
std::string reasons_of(const StudyReport& report) {
  std::vector<std::string> lines = texts_of(report.recommendation.advice);
  for (const std::string& reason : texts_of(report.recommendation.recommended.reasons)) lines.push_back("why: " + reason);
  return lines.empty() ? "" : section("Why this plan") + list_of(lines);
}

std::string finished_document(std::string text) {
  while (text.ends_with("\n\n")) text.pop_back();
  return finished(kBlock, names_of_files(text));
}

}  // namespace

std::string render_study_markdown(const StudyReport& report, Listing failed) {
  const tuner::Recommendation& all = report.recommendation;
  std::string text = "# " + escaped(answer_title(report)) + "\n\n" + answer_of(report) + reasons_of(report);
  text += table_of(stage_titles(all.recommended.trial.plan), stage_cells(all.recommended.trial.plan, report.modules));
  text += kinds_of(all.kinds) + comparison_of(all) + failed_of(all.unmeasured.candidates, failed);
  if (const std::vector<std::string> limits = limit_sentences(report); !limits.empty())
    text += section("Scaling efficiency") + list_of(limits);
  text += curve_of(report.curve);
  for (const std::optional<TraceReport>* trace : {&report.trace, &report.pipeline_trace}) text += *trace ? trace_sections(**trace) : "";
  if (!all.warnings.empty()) text += section("Warnings") + list_of(texts_of(all.warnings));
  std::string files = "plan    " + beside_study(report, report.plan_file) + "\n";
  for (const std::string& trace : report.trace_files) files += "trace   " + beside_study(report, trace) + "\n";
  if (!report.report_file.empty()) files += "report  " + beside_study(report, report.report_file) + "\n";
  text += section("Files") + block(files + "study   " + study_name(report) + "\n");
  return finished_document(text);
}

std::string render_trace_markdown(const TraceReport& report) {
  return finished_document("# " + escaped(report.title) + "\n\n" + trace_sections(report) + section("Details") +
                           block(render_details(report, kBlock)));
}

std::string render_plan_markdown(const PlanFile& file, const std::string& name) {
  std::string text = "# " + escaped(name) + "\n\n**" + escaped(plan_file_sentence(file)) + "**\n\n" + list_of(plan_file_lines(file));
  text += table_of(stage_titles(file.plan), stage_cells(file.plan, file.modules));
  std::vector<std::string> others;
  for (const AlternativePlan& other : file.alternatives) others.push_back(other.reason);
  if (!others.empty()) text += section("Alternatives") + list_of(others);
  std::vector<Row> facts;
  for (const auto& [fact, value] : plan_file_facts(file)) facts.push_back({fact, value});
  return finished_document(text + section("Made for") + table_of({"what", "here"}, facts));
}

}  // namespace mptune::reports
