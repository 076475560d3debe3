#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "planner/plan/plan_words.h"
#include "planner/search/baselines.h"
#include "profiler/base/shell_command.h"
#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "reports/html/answer.h"
#include "reports/html/charts.h"
#include "reports/html/html.h"
#include "reports/html/page.h"
#include "reports/html/plan_sections.h"
#include "reports/html/trace_sections.h"
#include "reports/html/trials.h"
#include "reports/render/answer_text.h"
#include "reports/render/kinds.h"
#include "reports/render/measured_sizes.h"
#include "reports/render/recommendation_text.h"
#include "reports/render/report_text.h"
#include "reports/render/units.h"
#include "reports/render/unmeasured.h"
#include "reports/values/follow_up.h"
#include "reports/values/plain_pytorch.h"
#include "reports/values/shared_files.h"

namespace mptune::reports {
namespace {

constexpr const char* kWaiting =
    "Where the time goes, below, says how much of the waiting for other devices is pipeline bubble, imbalance or another cause.";

std::int64_t largest(const std::vector<std::int64_t>& bytes) {
  return bytes.empty() ? 0 : std::ranges::max(bytes);
}

std::string peak_text(const std::vector<std::int64_t>& bytes) {
  return largest(bytes) > 0 ? format_bytes(largest(bytes)) : "-";
}

/// Names the device nearest to its cap, by share.
std::string memory_detail(const StudyReport& report) {
  const tuner::RecommendedPlan& best = report.recommendation.recommended;
  std::string text = "largest of the devices";
  double fullest = 0;
  for (std::size_t d = 0; d < std::min(best.peak_bytes.size(), best.trial.plan.devices.size()); ++d) {
    const auto device = std::ranges::find(report.devices, best.trial.plan.devices[d], &ProfileDevice::name);
    if (device == report.devices.end() || device->memory_bytes <= 0) continue;
    const double share = static_cast<double>(best.peak_bytes[d]) / static_cast<double>(device->memory_bytes);
    if (share <= fullest) continue;
    fullest = share;
    text = device->name + ": " + cap_text(best.peak_bytes[d], device->memory_bytes);
  }
  return text;
}

std::vector<PageFigure> figures(const StudyReport& report) {
  const tuner::RecommendedPlan& best = report.recommendation.recommended;
  std::vector<PageFigure> all;
  for (const tuner::BaselineResult* other : compared_baselines(report.recommendation)) {
    if (other->speedup.pairs > 0)
      all.push_back({"speed-up over " + baseline_words(other->name), times_text(other->speedup.estimate), verdict_detail(other->speedup)});
  }
  all.push_back({"step", format_seconds(best.step_s), best.step_ci95_s ? "95 % " + format_interval_seconds(*best.step_ci95_s) : ""});
  if (largest(best.peak_bytes) > 0) all.push_back({"peak memory", format_bytes(largest(best.peak_bytes)), memory_detail(report)});
  all.push_back({"tuning", format_seconds(report.elapsed_s), counted(static_cast<std::int64_t>(report.trials.size()), "trial")});
  return all;
}

std::string next_content(const StudyReport& report) {
  if (report.run_command.empty()) return "";
  const std::string path = beside_study(report, report.plan_file);
  std::string markup = paragraphs({where_to_give_commands(report) + ", train with the plan:"}) +
                       code_block(shared_command_with_plan_file(report.training, report.recommendation.recommended.trial.plan, path));
  if (const std::vector<std::string> lines = plain_pytorch(report.recommendation.recommended.trial.plan); !lines.empty())
    markup += paragraphs({"Plain PyTorch does the same with:"}) + code_block(join(lines, "\n"));
  if (more_measuring_helps(report))
    markup += paragraphs({"Go on measuring:"}) + code_block(shared_resume_command(study_name(report), report.elapsed_s));
  markup += folded("In Python", code_block("import mptune\nimport torch\n\nwith mptune.Pipeline(model, \"" + path +
                                           "\") as pipeline:\n    optimizer = torch.optim.SGD(pipeline.parameters(), lr=0.01)\n"
                                           "    for data, target in loader:\n        loss = pipeline.step(data, target)  # forward and "
                                           "backward of all micro-batches\n        optimizer.step()"));
  markup +=
      folded("In C++", code_block("auto plan = mptune::load_plan(\"" + path +
                                  "\");\nmptune::Pipeline pipeline(make_model(), plan);  // copies the stages to their devices\n"
                                  "for (auto& batch : loader) {\n  pipeline.step(batch.data, batch.target);      // forward and backward "
                                  "of all micro-batches\n  for (auto& optimizer : optimizers) optimizer->step();\n}"));
  markup += folded(
      "In Python, with another runtime",
      code_block("import mptune_plan\nfrom torch.distributed.pipelining import SplitPoint, pipeline\n\nplan = mptune_plan.load_plan(\"" +
                 path + "\")\npipe = pipeline(model, mb_args=(microbatch,), split_spec=plan.split_spec(SplitPoint.BEGINNING))"));
  return markup;
}

IntervalRow row_of(const std::string& name, const std::string& detail, double step_s, const std::optional<Interval>& ci95,
                   const std::string& note) {
  return {.name = name,
          .detail = detail,
          .value = format_seconds(step_s) + (ci95 ? " " + format_interval_seconds(*ci95) : ""),
          .note = note,
          .seconds = step_s,
          .ci95 = ci95};
}

std::string baselines_content(const tuner::Recommendation& all) {
  const tuner::RecommendedPlan& best = all.recommended;
  std::vector<IntervalRow> rows = {row_of("recommended", best.description, best.step_s, best.step_ci95_s, "")};
  rows.front().chosen = true;
  std::vector<HtmlRow> table = {
      {"recommended", format_seconds(best.step_s), interval_cell(best.step_ci95_s), "-", peak_text(best.peak_bytes)}};
  const auto add = [&](const IntervalRow& row, const std::string& speedup, const std::vector<std::int64_t>& peaks) {
    rows.push_back(row);
    table.push_back({row.name, row.seconds > 0 ? format_seconds(row.seconds) : "-", interval_cell(row.ci95), speedup, peak_text(peaks)});
  };
  if (all.best_pipeline && all.best_pipeline->trial.plan_key != best.trial.plan_key)
    add(row_of("best_pipeline", all.best_pipeline->description, all.best_pipeline->step_s, all.best_pipeline->step_ci95_s, ""), "-",
        all.best_pipeline->peak_bytes);
  for (const tuner::BaselineResult& baseline : all.baselines) {
    const bool same = baseline.trial.plan_key == best.trial.plan_key;
    const std::string speedup = format_speedup_over(baseline, best);
    add(row_of(baseline.name, describe(baseline.trial.plan), baseline.step_s, baseline.step_ci95_s, same ? speedup : ""), speedup,
        baseline.peak_bytes);
  }
  for (const tuner::UnmeasuredPlan& plan : all.unmeasured.baselines)
    add({.name = plan.name,
         .detail = plan.description,
         .value = "",
         .note = names_of_files(unmeasured_text(plan)),
         .seconds = 0,
         .ci95 = {}},
        names_of_files(unmeasured_text(plan)), {});
  return interval_chart(rows) +
         element("p", "class=\"note\"", "Step time, shorter is better; the bar is the 95 % interval of the median.") +
         folded("Speed-up of the recommendation over each, in numbers",
                html_table({"plan", ">step", ">95 %", ">speed-up of the recommendation", ">peak"}, table));
}

std::string kinds_content(const tuner::KindComparison& kinds) {
  std::vector<HtmlRow> rows;
  for (const KindCells& row : kind_cells(kinds))
    rows.push_back({row.kind, row.step, row.interval, row.speedup, row.peak, row.verdict, names_of_files(row.detail)});
  return rows.empty() ? ""
                      : paragraphs(texts_of(kinds.advice)) +
                            folded("Every kind, in numbers",
                                   html_table({"kind", ">step", ">95 %", ">over one device", ">peak", "verdict", "plan"}, rows));
}

std::string split_size_content(const StudyReport& report) {
  const auto& pipeline = report.recommendation.best_pipeline;
  const auto single = std::ranges::find(report.recommendation.baselines, planner::kSingleDeviceBaseline, &tuner::BaselineResult::name);
  const double single_s = single == report.recommendation.baselines.end() ? 0 : single->step_s;
  const int chosen = pipeline ? std::ranges::max(pipeline->trial.plan.microbatch_sizes) : 0;
  const std::string chart = curve_chart(report.curve, single_s, chosen);
  if (chart.empty()) return "";
  std::vector<HtmlRow> rows;
  for (const CurvePoint& point : report.curve) {
    rows.push_back({std::to_string(point.split_size), point.predicted_s > 0 ? format_seconds(point.predicted_s) : "-",
                    point.measured_s ? format_seconds(*point.measured_s) : "-", interval_cell(point.measured_ci95_s)});
  }
  return paragraphs({"Small micro-batches fill the pipeline, large ones compute faster per sample: the fastest split lies between."}) +
         chart + folded("In numbers", html_table({">samples per micro-batch", ">predicted", ">measured", ">95 %"}, rows));
}

std::vector<const TraceReport*> drawn_traces(const StudyReport& report) {
  std::vector<const TraceReport*> traces;
  for (const std::optional<TraceReport>* trace : {&report.naive_trace, &report.pipeline_trace, &report.trace})
    if (*trace) traces.push_back(&**trace);
  return traces;
}

std::string timeline_content(const StudyReport& report) {
  const std::string chart = timeline_chart(drawn_traces(report));
  return chart.empty() ? "" : chart + element("p", "class=\"note\"", kWaiting);
}

std::string devices_content(const StudyReport& report) {
  std::string markup;
  for (const std::optional<TraceReport>* trace : {&report.trace, &report.pipeline_trace})
    if (*trace) markup += element("h3", "", escape_html((*trace)->title)) + breakdown_content(**trace);
  if (report.naive_trace) markup += folded(report.naive_trace->title + ", for comparison", breakdown_content(*report.naive_trace));
  std::string help;
  for (const std::optional<TraceReport>* trace : {&report.trace, &report.pipeline_trace})
    if (*trace) help += element("h3", "", "What would help: " + escape_html((*trace)->title)) + advice_content(**trace);
  return markup + paragraphs(limit_sentences(report)) + help;
}

std::string partition_content(const StudyReport& report) {
  const Plan& plan = report.recommendation.recommended.trial.plan;
  return partition_chart(report.partition, stage_devices_text(plan)) +
         (report.partition.empty()
              ? ""
              : element("p", "class=\"note\"", "Every second layer is paler; width is the share of the computing time.")) +
         stage_table(plan, report.modules);
}

std::string environment_content(const StudyReport& report) {
  std::vector<HtmlRow> rows = {{"model", report.model}, {"batch", std::to_string(report.batch) + " samples per step"}};
  const auto add = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) rows.push_back({name, names_of_files(value)});
  };
  add("input", report.fingerprint.input);
  std::vector<std::string> devices;
  for (const ProfileDevice& device : report.devices)
    devices.push_back(device.name + (device.memory_bytes > 0 ? " (" + format_bytes(device.memory_bytes) + ")" : ""));
  add("devices", join(devices, ", "));
  add("LibTorch", report.fingerprint.libtorch);
  add("CUDA", report.fingerprint.cuda);
  add("fingerprint of the model", report.fingerprint.model);
  add("plan key", report.recommendation.recommended.trial.plan_key);
  add("study", study_name(report));
  add("plan", beside_study(report, report.plan_file));
  for (const std::string& trace : report.trace_files) add("trace", beside_study(report, trace));
  return html_table({"what", "here"}, rows, "class=\"facts\"") +
         paragraphs({"The same as data: mptune --json report " + shell_word(study_name(report))});
}

/// Says how the numbers of the last series were made.
std::string method_content(const StudyReport& report) {
  const tuner::RecommendedPlan& best = report.recommendation.recommended;
  std::vector<std::string> sentences;
  std::size_t plans = 0;
  for (const tuner::Trial& trial : report.trials) plans += trial.series == best.trial.series ? 1 : 0;
  std::size_t samples = 0;
  std::set<int> rounds;
  if (const auto* measured = std::get_if<tuner::Measured>(&best.trial.outcome)) {
    samples = measured->step_s.size();
    for (const Sample& sample : measured->step_s.values) rounds.insert(sample.round);
  }
  sentences.push_back(
      fmt::format("The last series benchmarked {} interleaved: in each of its {} the plans took turns, one step each, in one "
                  "order and then in the other, so that drift of the machine hits all alike. Plans that were clearly slower left it before "
                  "the end. The recommended plan has {}.",
                  counted(static_cast<std::int64_t>(plans), "plan"), counted(static_cast<std::int64_t>(rounds.size()), "round"),
                  counted(static_cast<std::int64_t>(samples), "timed step")));
  sentences.emplace_back(
      "A step time is the median of whole steps, warm-up left out, timed without a recorder. Its 95 % interval comes from order "
      "statistics and assumes no distribution; fewer than six steps have none. Speed-ups are medians of the ratios of steps of the same "
      "round.");
  sentences.emplace_back(
      "The timelines are recordings of other steps of the same plans. Predictions come from the measured costs of single layers "
      "and links, before any plan was run.");
  if (std::string sizes = extrapolated_text(report.measured_sizes); !sizes.empty()) {
    sizes.front() = 'C';
    sentences.push_back(sizes + ".");
  }
  if (!report.stop_reason.empty()) sentences.push_back("The search ended: " + report.stop_reason + ".");
  return paragraphs(sentences);
}

std::vector<std::string> shared_texts(std::vector<std::string> texts) {
  std::ranges::transform(texts, texts.begin(), names_of_files);
  return texts;
}

}  // namespace

std::string render_study_html(const StudyReport& report) {
  const tuner::Recommendation& all = report.recommendation;
  Page page;
  page.title = report.model + ": mptune report";
  std::vector<std::string> names;
  for (const std::string& device : all.recommended.trial.plan.devices) names.push_back(device);
  page.subject = fmt::format("{}, {} samples per step, on {}", report.model, report.batch, join(names, ", "));
  page.answer = answer_sentence(report);
  page.figures = figures(report);
  page.lead = shared_texts(texts_of(all.advice));
  if (const std::vector<std::string> reasons = texts_of(all.recommended.reasons); !reasons.empty())
    page.lead.push_back("Why: " + join(reasons, "; "));
  page.alerts = shared_texts(texts_of(all.warnings));
  page.sections = {{"next", "What to do next", next_content(report)},
                   {"baselines", "Against the baselines", baselines_content(all)},
                   {"kinds", "Which kind of parallelism", kinds_content(all.kinds)},
                   {"split", "Split size", split_size_content(report)},
                   {"timeline", "One step, before and after", timeline_content(report)},
                   {"devices", "Where the time goes", devices_content(report)},
                   {"memory", "Memory", report.trace ? memory_content(*report.trace) : ""},
                   {"partition", "Partition", partition_content(report)},
                   {"prediction", "Predicted and measured", prediction_content(report)},
                   {"trials", "Every trial", trials_content(report)},
                   {"environment", "Environment", environment_content(report)},
                   {"method", "How it was measured", method_content(report)}};
  return render_page(page);
}

}  // namespace mptune::reports
