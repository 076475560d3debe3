#include "reports/render/kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "reports/render/recommendation_text.h"
#include "reports/render/table.h"
#include "reports/render/units.h"

namespace mptune::reports {
namespace {

std::string each_peak(const tuner::KindResult& row) {
  const auto [least, most] = std::ranges::minmax_element(row.peak_bytes);
  if (row.peak_bytes.empty() || format_bytes(*least) == format_bytes(*most)) return "";
  std::vector<std::string> parts;
  for (std::size_t d = 0; d < row.peak_bytes.size() && d < row.trial->plan.devices.size(); ++d)
    parts.push_back(row.trial->plan.devices[d] + " " + format_bytes(row.peak_bytes[d]));
  return "; peaks " + join(parts, ", ");
}

std::string detail_of(const tuner::KindResult& row) {
  const std::string why_not = text_of(row.why_not);
  if (!row.trial)
    return why_not + (row.predicted_step_s > 0 ? "; predicted " + format_seconds(row.predicted_step_s) + ": " + row.description : "");
  return (why_not.empty() ? "" : why_not + "; ") + row.description + cuts_text(row.trial->plan) + each_peak(row);
}

std::string verdict_of(const tuner::KindResult& row) {
  if (row.best) return "best";
  if (!row.over_best) return "-";
  const double ratio = 1 / row.over_best->estimate;
  if (ratio >= 2) return fmt::format("{} {:.1f}x", to_string(row.over_best->verdict), ratio);
  const double behind = (ratio - 1) * 100;
  return fmt::format("{} {}{:.0f} %", to_string(row.over_best->verdict), behind < 0 ? "-" : "+", std::abs(behind));
}

KindCells cells_of(const tuner::KindResult& row) {
  KindCells cells{.kind = planner::in_words(row.kind),
                  .step = "-",
                  .interval = "-",
                  .speedup = "-",
                  .peak = "-",
                  .verdict = "-",
                  .detail = "",
                  .best = false};
  cells.detail = detail_of(row);
  if (!row.trial) return cells;
  cells.best = row.best;
  cells.step = format_seconds(row.step_s);
  cells.interval = interval_cell(row.step_ci95_s);
  cells.speedup = row.over_one_device ? format_ratio(row.over_one_device->estimate) + "x" : "-";
  cells.peak = row.peak_bytes.empty() ? "-" : format_bytes(std::ranges::max(row.peak_bytes));
  cells.verdict = verdict_of(row);
  return cells;
}

}  // namespace

std::string cuts_text(const Plan& plan) {
  std::vector<std::string> cuts;
  for (std::size_t s = 1; s < plan.stages.size(); ++s) cuts.push_back(std::to_string(plan.stages[s].first_layer));
  return cuts.empty() ? "" : "; cuts " + join(cuts, ",");
}

std::vector<KindCells> kind_cells(const tuner::KindComparison& kinds) {
  std::vector<KindCells> all;
  for (const tuner::KindResult& row : kinds.rows) all.push_back(cells_of(row));
  return all;
}

std::string render_kinds(const tuner::KindComparison& kinds, const TextStyle& style) {
  const std::vector<KindCells> all = kind_cells(kinds);
  if (all.empty()) return "";
  std::vector<std::vector<Cell>> rows;
  for (const KindCells& row : all)
    rows.push_back({{row.kind, row.best ? Color::green : Color::none}, row.step, row.interval, row.speedup, row.peak, row.verdict});
  std::vector<std::string> notes;
  for (const KindCells& row : all) notes.push_back(row.detail);
  std::string text =
      render_table({{"kind"}, {"step", true}, {"95 %", true}, {"speed-up", true}, {"peak", true}, {"verdict"}}, rows, notes, style);
  text += kinds.advice.empty() ? "" : "\n";
  for (const std::string& sentence : texts_of(kinds.advice)) text += join(wrap(sentence, style.width), "\n") + "\n";
  return text;
}

}  // namespace mptune::reports
