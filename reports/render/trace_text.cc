#include <fmt/format.h>

#include <algorithm>

#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "reports/quality_text.h"
#include "reports/render/advice_text.h"
#include "reports/render/report_text.h"
#include "reports/render/table.h"
#include "reports/render/units.h"

namespace mptune::reports {
namespace {

constexpr std::size_t kMostPathRows = 12;
/// Less than this share of the step would be printed as 0.0 %.
constexpr double kLeastShare = 0.0005;

double share_of(const DeviceRow& row, const profiler::NamedCause& cause) {
  return row.window_s > 0 ? std::chrono::duration<double>(row.idle.*cause.time).count() / row.window_s : 0;
}

std::string path_table(const std::vector<PathRow>& path, const TextStyle& style) {
  std::vector<std::vector<Cell>> rows;
  PathRow rest{.what = "", .time_s = 0, .share = 0};
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (i < kMostPathRows) {
      rows.push_back({path[i].what, format_percent(path[i].share), format_seconds(path[i].time_s)});
    } else {
      rest.time_s += path[i].time_s;
      rest.share += path[i].share;
    }
  }
  if (path.size() > kMostPathRows)
    rows.push_back({fmt::format("{} more", path.size() - kMostPathRows), format_percent(rest.share), format_seconds(rest.time_s)});
  return render_table({{"critical path"}, {"share", true}, {"per step", true}}, rows, style);
}

std::string link_table(const std::vector<LinkRow>& links, const TextStyle& style) {
  std::vector<std::vector<Cell>> rows;
  for (const LinkRow& link : links) {
    const bool sized = link.bytes > 0 && link.time_s > 0;
    rows.push_back({link.source, link.destination, std::to_string(link.copies), sized ? format_bytes(link.bytes) : "-",
                    format_seconds(link.time_s), sized ? format_bandwidth(static_cast<double>(link.bytes) / link.time_s) : "-",
                    format_percent(link.time_s > 0 ? link.exposed_s / link.time_s : 0)});
  }
  return render_table({{"from"}, {"to"}, {"copies", true}, {"bytes", true}, {"busy", true}, {"achieved", true}, {"exposed time", true}},
                      rows, style);
}

std::string lost_events(const TraceReport& report) {
  const TraceQuality& quality = report.quality;
  std::vector<std::string> parts;
  const auto add = [&](std::int64_t count, const char* what) {
    if (count > 0) parts.push_back(fmt::format("{} {}", count, what));
  };
  add(quality.dropped, "dropped");
  add(quality.zero_stamped, "without times");
  add(quality.unmatched, "without a counterpart");
  add(quality.out_of_window, "outside of steps");
  add(quality.cut_off, "cut off at the ends of the recording");
  add(report.has_stages ? quality.untagged : 0, "untagged");
  return join(parts, ", ");
}

std::string clock_words(const TraceReport& report) {
  return report.clock_error_s > 0
             ? "off by at least " + format_seconds(report.clock_error_s) + ": some work began that long before its input was there"
             : "no work began before its input was there";
}

}  // namespace

std::string causes_text(const DeviceRow& row) {
  std::vector<profiler::NamedCause> causes(profiler::kIdleCauses.begin(), profiler::kIdleCauses.end());
  std::ranges::stable_sort(causes, std::ranges::greater{}, [&](const profiler::NamedCause& cause) { return row.idle.*cause.time; });
  std::vector<std::string> parts;
  for (const profiler::NamedCause& cause : causes)
    if (const double share = share_of(row, cause); share >= kLeastShare)
      parts.push_back(cause_in_words(cause.name) + " " + format_percent(share));
  return join(parts, ", ");
}

std::string render_idle(const TraceReport& report, const TextStyle& style) {
  int label = 3;
  for (const DeviceRow& row : report.devices) label = std::max(label, display_width(row.device));
  const auto begin = [&](const std::string& name, double share) {
    return pad_right(name, label) + pad_left(format_percent(share), 9) + " idle";
  };
  std::string text;
  for (const DeviceRow& row : report.devices)
    text += hanging(begin(row.device, row.window_s > 0 ? row.idle_s / row.window_s : 0) + "  ", causes_text(row), style);
  const std::string theory =
      report.bubble_theory ? fmt::format("in theory {} (equal stages, free copies)", format_percent(*report.bubble_theory)) : "";
  return text + hanging(begin("all", report.bubble) + "  ", theory, style);
}

std::string render_advice(const TraceReport& report, const TextStyle& style) {
  if (report.objection) return hanging("", "no verdict: " + text_of(*report.objection), style);
  std::string text;
  for (const planner::Advice& advice : report.advice)
    text += hanging(pad_left(format_seconds(advice.saves_s), 8) + "  ", text_of(advice), style);
  if (!text.empty()) return text;
  return hanging(
      "", report.has_stages ? "no single change would make the step 0.5 % shorter" : "the recording names no stages, so there is no advice",
      style);
}

std::vector<std::string> recording_sentences(const TraceReport& report) {
  std::vector<std::string> sentences = {"clocks: " + clock_words(report)};
  if (std::string lost = lost_events(report); !lost.empty()) sentences.push_back("events: " + lost);
  return sentences;
}

std::string render_details(const TraceReport& report, const TextStyle& style) {
  std::string text = report.critical_path.empty() ? "" : path_table(report.critical_path, style) + "\n";
  text += report.links.empty() ? "" : link_table(report.links, style) + "\n";
  text += hanging("clocks: ", clock_words(report), style);
  const std::string lost = lost_events(report);
  return text + (lost.empty() ? "" : hanging("events: ", lost, style));
}

}  // namespace mptune::reports
