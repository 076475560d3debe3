#include "reports/render/stall_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "profiler/base/units.h"
#include "profiler/trace/analyze/stalls.h"
#include "reports/render/table.h"

namespace mptune::reports {
namespace {

constexpr std::size_t kMostStallRows = 30;

const char* action_words(EventKind kind) {
  switch (kind) {
    case EventKind::forward:
      return "forward";
    case EventKind::recompute:
      return "recomputation";
    case EventKind::backward_weight:
      return "weight gradients";
    default:
      return "backward";
  }
}

std::string stall_words(const StallRow& stall) {
  const std::string what = fmt::format("{} of micro-batch {}, stage {}", action_words(stall.kind), stall.microbatch, stall.stage);
  const std::string usually = format_seconds(stall.usual_s);
  return stall.late ? fmt::format("{} started {} after all it needs had ended, usually {}", what, format_seconds(stall.time_s), usually)
                    : fmt::format("{} took {}, usually {}", what, format_seconds(stall.time_s), usually);
}

std::string price_words(const StallRow& stall) {
  if (stall.hidden) return "hidden by waits of others: costs about nothing";
  return fmt::format("costs {}, {:.1f} % of the step", format_seconds(stall.price_s), stall.price_percent);
}

}  // namespace

std::string text_of(const StallRow& stall) {
  return fmt::format("{}, step {}: {}: {}", stall.device, stall.step, stall_words(stall), price_words(stall));
}

StallTable stall_table(const TraceReport& report) {
  StallTable table;
  for (const StallRow& stall : report.stalls) {
    if (table.rows.size() == kMostStallRows) break;
    table.rows.push_back({stall.device, std::to_string(stall.step), stall.hidden ? "hidden" : format_seconds(stall.price_s),
                          stall.hidden ? "-" : fmt::format("{:.1f} %", stall.price_percent), stall_words(stall)});
  }
  if (table.rows.empty()) return table;
  if (const std::size_t more = report.stalls.size() - table.rows.size(); more > 0)
    table.notes.push_back(fmt::format("and {} more, each of which costs at most as much", more));
  table.notes.push_back(fmt::format(
      "a stall is longer, or later, than what is usual for its device, stage and kind by {} robust standard deviations and {} % "
      "of the step; it costs what a replay of the step without it saves; hidden: others wait as long without it",
      profiler::kLeastStallSpreads, 100 * profiler::kLeastStallShare));
  return table;
}

std::string render_stalls(const TraceReport& report, const TextStyle& style) {
  const StallTable table = stall_table(report);
  if (table.rows.empty()) return "";
  std::vector<std::vector<Cell>> rows;
  for (const std::vector<std::string>& row : table.rows) rows.emplace_back(row.begin(), row.end());
  std::string text = render_table({{"device"}, {"step", true}, {"costs", true}, {"of the step", true}, {"stall"}}, rows, style);
  for (const std::string& note : table.notes) text += hanging("", note, style);
  return text;
}

}  // namespace mptune::reports
