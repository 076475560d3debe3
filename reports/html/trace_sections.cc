#include "reports/html/trace_sections.h"

#include <fmt/format.h>

#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "reports/html/charts.h"
#include "reports/render/advice_text.h"
#include "reports/render/report_text.h"
#include "reports/render/stall_text.h"
#include "reports/render/units.h"
#include "reports/values/quality_text.h"

namespace mptune::reports {
namespace {

constexpr std::size_t kMostPathRows = 12;
constexpr TextStyle kWide{.width = 1000, .unicode = true, .color = false};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (const std::string& line : split(text, '\n'))
    if (!line.empty()) lines.push_back(line);
  return lines;
}

/// Returns a table with a row per device that idles, with its causes, largest first.
std::string idle_table(const TraceReport& report) {
  std::vector<HtmlRow> rows;
  for (const DeviceRow& row : report.devices)
    rows.push_back({row.device, format_percent(row.window_s > 0 ? row.idle_s / row.window_s : 0), causes_text(row)});
  if (rows.empty()) return "";
  rows.push_back({"all", format_percent(report.bubble),
                  report.bubble_theory ? "in theory " + format_percent(*report.bubble_theory) + " (equal stages, free copies)" : ""});
  return html_table({"device", ">idle", "causes, as shares of the step"}, rows);
}

std::string device_table(const std::vector<DeviceRow>& devices) {
  std::vector<HtmlRow> rows;
  for (const DeviceRow& row : devices) {
    const auto share = [&](double seconds) { return format_percent(row.window_s > 0 ? seconds / row.window_s : 0); };
    rows.push_back({row.device, share(row.compute_s), share(row.copy_s), share(row.overlap_s), share(row.idle_s),
                    row.peak_bytes > 0 ? format_bytes(row.peak_bytes) : "-"});
  }
  return html_table({"device", ">compute", ">copy", ">overlap", ">idle", ">peak"}, rows);
}

std::string path_table(const std::vector<PathRow>& path) {
  std::vector<HtmlRow> rows;
  for (const PathRow& row : path) {
    if (rows.size() == kMostPathRows) break;
    rows.push_back({row.what, format_percent(row.share), format_seconds(row.time_s)});
  }
  if (rows.empty()) return "";
  return element("h3", "", "Critical path") + html_table({"what", ">share of the step", ">per step"}, rows) +
         (path.size() > kMostPathRows ? element("p", "class=\"note\"", fmt::format("and {} more", path.size() - kMostPathRows)) : "");
}

std::string link_table(const std::vector<LinkRow>& links) {
  std::vector<HtmlRow> rows;
  for (const LinkRow& link : links) {
    const bool sized = link.bytes > 0 && link.time_s > 0;
    rows.push_back({link.source, link.destination, std::to_string(link.copies), sized ? format_bytes(link.bytes) : "-",
                    format_seconds(link.time_s), sized ? format_bandwidth(static_cast<double>(link.bytes) / link.time_s) : "-",
                    format_percent(link.time_s > 0 ? link.exposed_s / link.time_s : 0)});
  }
  return rows.empty()
             ? ""
             : element("h3", "", "Links") + html_table({"from", "to", ">copies", ">bytes", ">busy", ">achieved", ">exposed time"}, rows);
}

std::string stalls_content(const TraceReport& report) {
  const StallTable table = stall_table(report);
  if (table.rows.empty()) return "";
  std::vector<HtmlRow> rows;
  for (const std::vector<std::string>& row : table.rows) rows.emplace_back(row.begin(), row.end());
  return element("h3", "", "Stalls") + html_table({"device", ">step", ">costs", ">of the step", "stall"}, rows) + paragraphs(table.notes);
}

}  // namespace

std::string breakdown_content(const TraceReport& report) {
  return breakdown_chart(report.devices) + folded("Why devices idle, in numbers", idle_table(report) + device_table(report.devices));
}

std::string advice_content(const TraceReport& report) {
  if (report.objection) return paragraphs({"no verdict: " + text_of(*report.objection)});
  std::vector<HtmlRow> rows;
  for (const planner::Advice& advice : report.advice) rows.push_back({format_seconds(advice.saves_s), text_of(advice)});
  return (rows.empty() ? paragraphs(lines_of(render_advice(report, kWide))) : html_table({">saves", "change"}, rows)) +
         stalls_content(report);
}

std::string memory_content(const TraceReport& report) {
  const std::string chart = memory_chart(report);
  if (chart.empty()) return "";
  std::vector<std::string> contents;
  for (const MemoryRow& row : report.memory)
    if (const std::string text = contents_text(row); !text.empty()) contents.push_back(row.device + ": " + text);
  return chart + folded("What the peaks are made of", list_items(contents));
}

std::string details_content(const TraceReport& report) {
  std::string markup = path_table(report.critical_path) + link_table(report.links);
  return markup + paragraphs(recording_sentences(report));
}

}  // namespace mptune::reports
