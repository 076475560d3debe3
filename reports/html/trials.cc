#include "reports/html/trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/plan/plan_words.h"
#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "reports/html/charts.h"
#include "reports/html/markup.h"
#include "reports/render/kinds.h"
#include "reports/render/units.h"
#include "reports/values/shared_files.h"

namespace mptune::reports {
namespace {

/// More trials than this are folded away.
constexpr std::size_t kMostOpen = 25;

const tuner::Measured* measured_of(const tuner::Trial& trial) {
  const auto* measured = std::get_if<tuner::Measured>(&trial.outcome);
  return measured == nullptr || measured->step_s.empty() ? nullptr : measured;
}

double predicted_of(const tuner::Trial& trial) {
  return trial.prediction ? trial.prediction->step_s : 0;
}

/// Returns a cell that sorts by the number's value, whatever unit it is written in; missing numbers come last.
HtmlCell number_cell(const std::string& text, double value) {
  return {text, fmt::format("{:.6g}", value)};
}
HtmlCell missing() {
  return {"-", "1e99"};
}

HtmlCell time_cell(double seconds) {
  return seconds > 0 ? number_cell(format_seconds(seconds), seconds) : missing();
}

HtmlRow row_of(const tuner::Trial& trial, int final_series) {
  const tuner::Measured* measured = measured_of(trial);
  const double predicted_s = predicted_of(trial);
  const double step_s = measured == nullptr ? 0 : median(measured->step_s);
  HtmlRow row = {std::to_string(trial.id), trial.name + (trial.series == final_series ? ", final" : ""),
                 describe(trial.plan) + cuts_text(trial.plan), time_cell(predicted_s), time_cell(step_s)};
  const std::vector<std::int64_t> peaks = peak_bytes_of(trial);
  const std::int64_t peak = peaks.empty() ? 0 : std::ranges::max(peaks);
  if (measured == nullptr) {
    row.insert(row.end(), {missing(), missing(), missing(), names_of_files(tuner::outcome_text(trial.outcome))});
    return row;
  }
  const std::optional<Interval> ci95 = interval95(measured->step_s);
  row.push_back(ci95 ? number_cell(format_interval_seconds(*ci95), ci95->low) : missing());
  row.push_back(predicted_s > 0 ? number_cell(off_by(predicted_s, step_s), predicted_s / step_s - 1) : missing());
  row.push_back(peak > 0 ? number_cell(format_bytes(peak), static_cast<double>(peak)) : missing());
  row.emplace_back("measured");
  return row;
}

}  // namespace

std::string prediction_content(const StudyReport& report) {
  const tuner::RecommendedPlan& best = report.recommendation.recommended;
  std::vector<ScatterPoint> points;
  for (const tuner::Trial& trial : report.trials) {
    const tuner::Measured* measured = measured_of(trial);
    if (measured == nullptr || predicted_of(trial) <= 0) continue;
    points.push_back({.name = fmt::format("trial {}", trial.id),
                      .predicted_s = predicted_of(trial),
                      .measured_s = median(measured->step_s),
                      .chosen = trial.id == best.trial.id});
  }
  std::string markup;
  if (best.predicted_step_s > 0) {
    markup += paragraphs(
        {fmt::format("The recommended plan: predicted {}, measured {} (off by {}). On the line, a prediction is exact.",
                     format_seconds(best.predicted_step_s), format_seconds(best.step_s), off_by(best.predicted_step_s, best.step_s))});
  }
  return markup + scatter_chart(points);
}

std::string trials_content(const StudyReport& report) {
  const int final_series = report.recommendation.recommended.trial.series;
  std::vector<HtmlRow> rows;
  std::vector<double> steps;
  std::int64_t failed = 0;
  for (const tuner::Trial& trial : report.trials) {
    rows.push_back(row_of(trial, final_series));
    failed += std::holds_alternative<tuner::Measured>(trial.outcome) ? 0 : 1;
    if (const tuner::Measured* measured = measured_of(trial)) steps.push_back(median(measured->step_s));
  }
  if (rows.empty()) return "";
  const std::string table = html_table({">trial", "name", "plan", ">predicted", ">step", ">95 %", ">off by", ">peak", "outcome"}, rows,
                                       "id=\"trial-table\" class=\"sortable\"");
  const std::string counts = counted(static_cast<std::int64_t>(rows.size()), "trial") + ", " + std::to_string(failed) + " failed";
  const std::string progress = progress_chart(steps);
  return (progress.empty() ? "" : element("h3", "", "Best step so far")) + progress +
         (rows.size() > kMostOpen ? folded("All of them: " + counts, table) : paragraphs({counts}) + table);
}

}  // namespace mptune::reports
