#include "reports/render/report_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "planner/plan/offload.h"
#include "profiler/base/index.h"
#include "profiler/base/printable.h"
#include "profiler/base/shell_command.h"
#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "reports/render/answer_text.h"
#include "reports/render/kinds.h"
#include "reports/render/measured_sizes.h"
#include "reports/render/pictures.h"
#include "reports/render/recommendation_text.h"
#include "reports/render/search_text.h"
#include "reports/render/stall_text.h"
#include "reports/render/table.h"
#include "reports/render/units.h"
#include "reports/values/follow_up.h"
#include "reports/values/plain_pytorch.h"

namespace mptune::reports {
namespace {

std::string peaks_text(const Plan& plan, const std::vector<std::int64_t>& bytes) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < std::min(bytes.size(), plan.devices.size()); ++i)
    parts.push_back(plan.devices[i] + " " + format_bytes(bytes[i]));
  return join(parts, ", ");
}

/// Renders an item that may take several lines.
std::string item(const std::string& text, const TextStyle& style) {
  return hanging("", text, style);
}

std::string plan_beside(const std::string& name, const tuner::RecommendedPlan& plan) {
  return name + ": " + plan.description + cuts_text(plan.trial.plan) + "; step " +
         format_measured(plan.step_s, plan.step_ci95_s, rounds_of(plan.trial)) + "; peak " + peaks_text(plan.trial.plan, plan.peak_bytes);
}

/// Says why the plan is recommended, and names the best plans of other sorts.
std::string reasons(const StudyReport& report, const TextStyle& style) {
  const tuner::Recommendation& all = report.recommendation;
  std::string text = item("peak memory of each device: " + peaks_text(all.recommended.trial.plan, all.recommended.peak_bytes), style);
  for (const std::string& reason : texts_of(all.recommended.reasons)) text += item("why: " + reason, style);
  for (const std::string& advice : texts_of(all.advice)) text += item(advice, style);
  const auto other = [&](const std::optional<tuner::RecommendedPlan>& plan) {
    return plan && plan->trial.plan_key != all.recommended.trial.plan_key;
  };
  if (other(all.best_pipeline)) text += item(plan_beside("best pipeline", *all.best_pipeline), style);
  if (other(all.best_half_memory)) {
    const bool same = all.best_pipeline && all.best_half_memory->trial.plan_key == all.best_pipeline->trial.plan_key;
    text +=
        item(same ? "best in half the memory: the same pipeline" : plan_beside("best in half the memory", *all.best_half_memory), style);
  }
  return text;
}

/// Renders the commands, each alone on its line and never wrapped, so that they can be pasted.
std::string commands(const StudyReport& report, const TextStyle& style) {
  std::string text;
  if (!report.run_command.empty())
    text += "train with it:\n  " + paint(style, Color::bold, printable(report.run_command)) + "\n";
  else
    text += "the study does not hold the model's options: give them to run, with\n  --plan " +
            printable(shell_word(absolute_path(report.plan_file))) + "\n";
  if (const std::vector<std::string> lines = plain_pytorch(report.recommendation.recommended.trial.plan); !lines.empty())
    text += "plain PyTorch does the same with:\n  " + join(lines, "\n  ") + "\n";
  if (more_measuring_helps(report)) text += "go on measuring:\n  " + paint(style, Color::bold, printable(report.resume_command)) + "\n";
  for (const tuner::Warning& warning : report.recommendation.warnings) {
    if (answer_tells(report.recommendation, warning)) continue;
    const std::string lines = join(wrap("warning: " + text_of(warning), style.width), "\n");
    const std::size_t word = lines.find(':') + 1;
    text += paint(style, Color::yellow, lines.substr(0, word)) + lines.substr(word) + "\n";
  }
  return text;
}

std::string comparison(const tuner::Recommendation& all, const TextStyle& style) {
  const auto row_of = [](const std::string& name, const tuner::RecommendedPlan& plan, bool reference) {
    return ComparisonRow{name, plan.step_s, plan.step_ci95_s, "", plan.peak_bytes, reference, ""};
  };
  std::vector<ComparisonRow> rows = {row_of("recommended", all.recommended, true)};
  if (all.best_pipeline && all.best_pipeline->trial.plan_key != all.recommended.trial.plan_key)
    rows.push_back(row_of("best_pipeline", *all.best_pipeline, false));
  for (const tuner::BaselineResult& baseline : all.baselines)
    rows.push_back({baseline.name, baseline.step_s, baseline.step_ci95_s, format_speedup_over(baseline, all.recommended),
                    baseline.peak_bytes, false, ""});
  for (const tuner::UnmeasuredPlan& baseline : all.unmeasured.baselines)
    rows.push_back({baseline.name, 0, {}, "", {}, false, unmeasured_text(baseline)});
  return render_comparison(rows, style);
}

// Explains a share over 110 %.
std::string unfair(LimitShare::Yardstick yardstick) {
  const std::string why = yardstick == LimitShare::Yardstick::larger_devices ? "the others have more cores"
                                                                             : "its caches, memory or threads hold the whole batch back";
  return "; above 110 % one device is slower than it should be (" + why + "), so it is no fair yardstick: see the other baselines";
}

std::string limit_sentence(const std::string& name, const LimitShare& share) {
  std::string line = fmt::format("{}: scaling efficiency {} (one-device step / devices = {}; step {})", name,
                                 format_percent(share.limit_s / share.step_s), format_seconds(share.limit_s), format_seconds(share.step_s));
  if (share.yardstick != LimitShare::Yardstick::fair) return line + unfair(share.yardstick);
  if (!share.rest.empty()) {
    line += "; the rest goes to";
    for (std::size_t i = 0; i < share.rest.size(); ++i)
      line += fmt::format("{} {} {}", i == 0 ? "" : ",", share.rest[i].what, format_percent(share.rest[i].seconds / share.step_s));
  }
  return line;
}

std::string limits(const StudyReport& report, const TextStyle& style) {
  std::string text;
  for (const std::string& sentence : limit_sentences(report)) text += join(wrap(sentence, style.width), "\n") + "\n";
  return text;
}

/// Renders failed plans by cause, and for each cause a command that shows how its first plan fails.
std::string what_failed(const StudyReport& report, Listing listing, const TextStyle& style) {
  const tuner::Unmeasured& unmeasured = report.recommendation.unmeasured;
  std::string text;
  if (!unmeasured.candidates.empty())
    text += heading(style, failed_title(unmeasured.candidates)) + render_failed(unmeasured.candidates, listing, style);
  std::vector<tuner::UnmeasuredPlan> all = unmeasured.baselines;
  all.insert(all.end(), unmeasured.candidates.begin(), unmeasured.candidates.end());
  std::string shown;
  for (const tuner::FailedAlike& alike : tuner::by_cause(all))
    if (const auto command = command_that_shows(alike, report.training))
      shown += item(tuner::outcome_text(alike.cause) + ", as", style) + "  " + printable(*command) + "\n";
  if (!shown.empty()) text += heading(style, "How they fail") + shown;
  return text.empty() ? "" : text + "\n";
}

/// Renders the traces when asked for, since one step is long.
std::string traces(const StudyReport& report, Listing listing, const TextStyle& style) {
  if (!report.trace && !report.pipeline_trace) return "";
  if (listing == Listing::few)
    return item(std::string("-v shows where the time goes: one step, idle time, memory") +
                    (report.report_file.empty() ? "" : "; so does the page in the study's folder"),
                style);
  std::string text;
  for (const std::optional<TraceReport>* trace : {&report.trace, &report.pipeline_trace})
    if (*trace) text += render_trace_report(**trace, style) + "\n";
  return text;
}

/// Repeats the answer at the end, because the last lines stay on the screen.
std::string answer_again(const StudyReport& report, const TextStyle& style) {
  std::string text;
  for (const std::string& line : answer_in_short(report)) text += item(line, style);
  return text + (report.run_command.empty() ? "" : paint(style, Color::bold, printable(report.run_command)) + "\n");
}

std::string files(const StudyReport& report) {
  std::string text = "plan    " + printable(report.plan_file) + "\n";
  for (const std::string& trace : report.trace_files) text += "trace   " + printable(trace) + "\n";
  if (!report.report_file.empty()) text += "report  " + printable(report.report_file) + "\n";
  return text + "study   " + printable(report.study) + "\n";
}

}  // namespace

std::string format_speedup(const Speedup& speedup) {
  if (speedup.pairs == 0) return to_string(speedup.verdict);
  if (speedup.ci95)
    return fmt::format("{}x [{}, {}] {}", format_ratio(speedup.estimate), format_ratio(speedup.ci95->low), format_ratio(speedup.ci95->high),
                       to_string(speedup.verdict));
  if (!speedup.error_rate) return fmt::format("{}x {}", format_ratio(speedup.estimate), to_string(speedup.verdict));
  return fmt::format("{}x ({} to {}) {}", format_ratio(speedup.estimate), format_ratio(speedup.range->low),
                     format_ratio(speedup.range->high), to_string(speedup.verdict));
}

std::string evidence_in_brackets(const Speedup& speedup) {
  if (speedup.ci95) return fmt::format(" (95 % interval {} to {})", format_ratio(speedup.ci95->low), format_ratio(speedup.ci95->high));
  if (!speedup.range) return "";
  const std::string wrong = speedup.error_rate ? ", error rate " + format_percent(*speedup.error_rate) : "";
  return fmt::format(" ({} to {} in {}{})", format_ratio(speedup.range->low), format_ratio(speedup.range->high),
                     counted(static_cast<std::int64_t>(speedup.pairs), "pair"), wrong);
}

std::string format_speedup_over(const tuner::BaselineResult& baseline, const tuner::RecommendedPlan& recommended) {
  return baseline.trial.plan_key == recommended.trial.plan_key ? "same plan" : format_speedup(baseline.speedup);
}

std::vector<std::string> limit_sentences(const StudyReport& report) {
  std::vector<std::string> sentences;
  if (report.limit) sentences.push_back(limit_sentence("recommended", *report.limit));
  if (report.pipeline_limit) sentences.push_back(limit_sentence("best pipeline", *report.pipeline_limit));
  if (report.co_running_slowdown > 1)
    sentences.push_back(fmt::format("devices that compute at the same time slow each other {:.2f}x here", report.co_running_slowdown));
  if (report.lower_bound_s > 0) {
    sentences.push_back(fmt::format("no plan is predicted under {}: the recommended step is {} {} that",
                                    format_seconds(report.lower_bound_s), format_percent(std::abs(report.gap)),
                                    report.gap < 0 ? "below" : "above"));
  }
  if (std::string searched = text_of(report.stages_per_device); !searched.empty()) sentences.push_back(std::move(searched));
  return sentences;
}

std::vector<std::vector<std::string>> stage_cells(const Plan& plan, const std::vector<std::vector<std::string>>& modules) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const Stage& stage = plan.stages[i];
    std::vector<std::string> devices;
    for (const int device : stage.devices) devices.push_back(plan.devices.at(as_index(device)));
    const char* recompute = stage.recompute.mode == Recompute::Mode::none  ? "none"
                            : stage.recompute.mode == Recompute::Mode::all ? "all"
                                                                           : "some";
    std::string names;
    if (i < modules.size() && !modules[i].empty())
      names = modules[i].size() == 1 ? modules[i].front() : modules[i].front() + " .. " + modules[i].back();
    rows.push_back({std::to_string(i), join(devices, " "), fmt::format("{} to {}", stage.first_layer, stage.last_layer - 1), recompute});
    if (planner::offloads(plan)) rows.back().emplace_back(stage.offload ? "yes" : "no");
    rows.back().push_back(std::move(names));
  }
  return rows;
}

std::vector<std::string> stage_titles(const Plan& plan) {
  if (planner::offloads(plan)) return {">stage", "devices", "layers", "recompute", "offload", "modules"};
  return {">stage", "devices", "layers", "recompute", "modules"};
}

std::string render_stages(const Plan& plan, const std::vector<std::vector<std::string>>& modules, const TextStyle& style) {
  std::vector<std::vector<Cell>> rows;
  for (const std::vector<std::string>& cells : stage_cells(plan, modules)) rows.emplace_back(cells.begin(), cells.end());
  std::vector<Column> columns;
  for (const std::string& title : stage_titles(plan))
    columns.push_back(title.front() == '>' ? Column{title.substr(1), true} : Column{title});
  if (modules.empty()) {
    columns.pop_back();
    for (auto& row : rows) row.pop_back();
  }
  return render_table(columns, rows, style);
}

std::string render_trace_report(const TraceReport& report, const TextStyle& style, const std::vector<std::string>& next) {
  std::string text = heading(style, fmt::format("{}: step {}, idle {} of all devices", report.title, format_seconds(report.step_s),
                                                format_percent(report.bubble)));
  text += render_trace_answer(report, style);
  for (const std::string& line : next) text += printable(line) + "\n";
  text += "\n";
  text += render_breakdown(report.devices, style) + "\n";
  text += heading(style, "Why devices idle") + render_idle(report, style) + "\n";
  text += heading(style, "What would help") + render_advice(report, style);
  if (const std::string stalls = render_stalls(report, style); !stalls.empty()) text += "\n" + heading(style, "Stalls") + stalls;
  if (const std::string timeline = render_timeline(report, style); !timeline.empty()) text += "\n" + heading(style, "One step") + timeline;
  if (const std::string memory = render_memory(report, style); !memory.empty()) {
    text += "\n";
    text += heading(style, "Memory") + memory;
  }
  return text;
}

std::string render_study_report(const StudyReport& report, const TextStyle& style, Listing listing) {
  std::string text = render_card(answer_title(report), answer_lines(report), style) + commands(report, style) + "\n";
  text += render_stages(report.recommendation.recommended.trial.plan, report.modules, style) + "\n";
  if (const std::string kinds = render_kinds(report.recommendation.kinds, style); !kinds.empty())
    text += heading(style, "Which kind of parallelism (speed-up over one device)") + kinds + "\n";
  text += heading(style, "Step time and speed-up of the recommendation") + comparison(report.recommendation, style) + "\n";
  text += heading(style, "Why this plan") + reasons(report, style) + "\n";
  text += what_failed(report, listing, style);
  const std::string share = limits(report, style);
  if (!share.empty()) text += heading(style, "Scaling efficiency") + share + "\n";
  const std::string curve = render_curve(report.curve, style);
  if (!curve.empty()) text += heading(style, "Step time of the pipeline over the split size") + curve + "\n";
  text += traces(report, listing, style);
  if (!report.stop_reason.empty())
    text += item(fmt::format("{} trials in {}: {}", report.trials.size(), format_seconds(report.elapsed_s), report.stop_reason), style);
  if (report.refit) text += item(text_of(*report.refit), style);
  if (const std::string sizes = extrapolated_text(report.measured_sizes); !sizes.empty()) text += item(sizes, style);
  return text + files(report) + "\n" + answer_again(report, style);
}

}  // namespace mptune::reports
